"""A batch that has ended, in figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class HotKey:
    """One of the heaviest keys of a batch: its share of the seconds, or of the rows, and who owns it."""

    key: str
    share: float
    channel: int


@dataclass(frozen=True)
class MoveMade:
    """One key, by its value, or one slot went from channel `source` to channel `target`."""

    kind: str
    key: str
    source: int
    target: int


@dataclass(frozen=True)
class BatchFigures:
    """One batch, as it was. Tuples named ``channel_...`` have one number for each channel."""

    batch_id: int
    way: str  # "counted" and planned by its own counts, "direct" under the table at hand, "whole" in one task, "empty"
    channels: int
    tasks: int  # that the channels ran in
    rows: int  # that came to the channels
    late_rows: int  # too late to count
    imbalance: float  # fullest channel over the mean, in seconds where the operator measures them, else in rows
    hash_imbalance: float | None  # the same for Spark's own hash over as many partitions; None if not counted
    busiest_seconds: float  # work of the fullest channel
    hash_seconds: float | None  # what it would have been under Spark's hash
    channel_rows: tuple[int, ...]  # under a splitting scheme, those of each worker
    channel_seconds: tuple[float, ...]  # in the operator
    channel_keys: tuple[int, ...]  # keys held; -1 where the channel was not called
    channel_bytes: tuple[int, ...]  # bytes held; -1 where the channel was not called
    channel_spilled: tuple[int, ...]  # bytes that the channel's memory has no room for
    hot_keys: tuple[HotKey, ...]  # heaviest first
    moves: tuple[MoveMade, ...]  # what moved before the batch's rows, the first 200 of them
    moved_keys: int
    moved_slots: int
    moved_bytes: int
    planner: str | None  # None if nobody planned
    planning_seconds: float
    plan: dict[str, Any] | None  # the planner's own report
    table_version: int
    table_keys: int  # entries of the routing table for single keys
    split_keys: int
    state_keys: int  # held by all channels after the batch
    state_bytes: int
    watermark_ms: int | None  # None without event time
    # What each channel found of its state: a local "copy", one that was "behind" and has caught up, only the
    # checkpoint ("store"), or "new" if it had no state. Empty if the channel was not called.
    channel_found: tuple[str, ...]
    homes: int  # tasks that were held to an executor; 0 if tasks ran anywhere
    seconds: dict[str, float] = field(default_factory=dict)  # by stage: count, plan, work, record, sink, commit
    time_ms: int = 0  # when the batch began, by Spark's clock
    cores: int = 1  # that Spark had
    measured: bool = False  # whether the load is in seconds; else it is in rows
    move_seconds: float = 0.0  # for taking in and giving away state, in the channel that it took longest
    reason: str = "unplanned"  # why the table is as it is; see `unskew.runtime.planning`
    left: tuple[MoveMade, ...] = ()  # what the planner wanted to move and stayed, the first 200
    left_moves: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as a section of Spark's progress: plain values, with names in Spark's spelling."""
        figures = json.loads(json.dumps(asdict(self)))
        return {_camel(name): value for name, value in figures.items() if name != "batch_id"}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> BatchFigures:
        """Read figures back that were written as JSON."""
        plain = dict(entry)
        for name in _TUPLES:
            plain[name] = tuple(entry.get(name, ()))
        plain["hot_keys"] = tuple([HotKey(**each) for each in entry["hot_keys"]])
        for name in ("moves", "left"):
            plain[name] = tuple([MoveMade(**each) for each in entry.get(name, ())])
        return cls(**plain)


_TUPLES = [each.name for each in fields(BatchFigures) if str(each.type).startswith("tuple")]


def _camel(name: str) -> str:
    """Spell a name as Spark does.

    >>> _camel("state_bytes")
    'stateBytes'
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
