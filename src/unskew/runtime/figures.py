"""A batch that has ended, in figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.load.statistics import Statistics, combine
from unskew.routing.moves import Moves
from unskew.routing.table import RoutingTable
from unskew.runtime.channel import HOT_KEYS
from unskew.runtime.count import Counted
from unskew.runtime.report import ChannelReport

MOVES_LISTED = 200


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
    """One batch, as it was.

    Parameters
    ----------
    batch_id
        The batch.
    way
        How it was run: ``"counted"`` first and planned by its own counts, ``"direct"`` under the table at hand,
        ``"whole"`` in one task, or ``"empty"``.
    channels, tasks
        Channels in use, and the tasks that they ran in.
    rows, late_rows
        Rows that came to the channels, and those too late to count.
    imbalance
        Load of the fullest channel over the mean, in what planning goes by: seconds in the operator where it measures
        them, rows where not.
    hash_imbalance
        What Spark's own hash would have given for the same rows, over as many partitions; None if it was not counted.
    busiest_seconds, hash_seconds
        Work of the fullest channel in seconds, and what it would have been under Spark's hash.
    channel_rows, channel_seconds, channel_keys, channel_bytes, channel_spilled
        Of each channel: rows (under a splitting scheme of each worker), seconds in the operator, keys and bytes held
        (-1 where the channel was not called), and bytes that its memory has no room for.
    channel_found
        Of each channel, what it found of its state where it ran: a local ``"copy"``, one that was ``"behind"`` and has
        caught up, nothing but the checkpoint (``"store"``), or ``"new"`` if it had no state; empty if not called.
    homes
        Executors' places that tasks were held to, as many as tasks; 0 if they ran anywhere.
    hot_keys
        The heaviest keys, heaviest first.
    moves
        What moved before the batch's rows, the first ones of many.
    moved_keys, moved_slots, moved_bytes
        How much that was, with state that came in bytes.
    planner, planning_seconds, plan
        Who planned, how long it took, and what the planner says of its plan; None if nobody planned.
    table_version, table_keys, split_keys
        Version of the routing table, and its entries for single keys.
    state_keys, state_bytes
        What all channels hold after the batch.
    watermark_ms
        The watermark that the batch had; None without event time.
    seconds
        Where the time went: ``count``, ``plan``, ``work``, ``record``, ``sink``.
    """

    batch_id: int
    way: str
    channels: int
    tasks: int
    rows: int
    late_rows: int
    imbalance: float
    hash_imbalance: float | None
    busiest_seconds: float
    hash_seconds: float | None
    channel_rows: tuple[int, ...]
    channel_seconds: tuple[float, ...]
    channel_keys: tuple[int, ...]
    channel_bytes: tuple[int, ...]
    channel_spilled: tuple[int, ...]
    hot_keys: tuple[HotKey, ...]
    moves: tuple[MoveMade, ...]
    moved_keys: int
    moved_slots: int
    moved_bytes: int
    planner: str | None
    planning_seconds: float
    plan: dict[str, Any] | None
    table_version: int
    table_keys: int
    split_keys: int
    state_keys: int
    state_bytes: int
    watermark_ms: int | None
    channel_found: tuple[str, ...]
    homes: int
    seconds: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as a section of Spark's progress: plain values, names as Spark spells its own."""
        figures = json.loads(json.dumps(asdict(self)))
        return {_camel(name): value for name, value in figures.items() if name != "batch_id"}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> BatchFigures:
        """Read what ``dataclasses.asdict`` gave, after JSON."""
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()
        }
        plain["hot_keys"] = tuple(HotKey(**each) for each in entry["hot_keys"])
        plain["moves"] = tuple(MoveMade(**each) for each in entry["moves"])
        return cls(**plain)


@dataclass(frozen=True, eq=False)
class Loads:
    """The load of a batch by channel, as it was and as Spark's hash would have made it."""

    costs: NDArray[np.float64]
    rows: NDArray[np.int64]
    seconds: NDArray[np.float64]
    under_hash: NDArray[np.float64] | None
    seconds_per_cost: float

    @classmethod
    def of(cls, reports: Mapping[int, ChannelReport], channels: int, counted: Counted | None) -> Loads:
        """Add up the channels' reports."""
        costs, rows, seconds = np.zeros(channels), np.zeros(channels, np.int64), np.zeros(channels)
        for channel, report in reports.items():
            costs[channel], rows[channel] = report.statistics.total_cost, report.rows
            seconds[channel] = report.seconds
        workers = np.array([report.worker_rows for report in reports.values() if report.worker_rows], np.int64)
        if len(workers):  # a splitting scheme: the work is done before the rows reach their owners
            rows = workers.sum(axis=0)
            costs = rows.astype(np.float64)
        total = float(costs.sum())
        everything = combine([report.statistics for report in reports.values()])
        under_hash = None if counted is None else counted.under_hash(everything)
        return cls(costs, rows, seconds, under_hash, float(seconds.sum()) / total if total > 0 else 0.0)

    @property
    def imbalance(self) -> float:
        """Load of the fullest channel over the mean; 1 without load."""
        return imbalance_of(self.costs)

    @property
    def busiest_seconds(self) -> float:
        """Work of the fullest channel."""
        return float(self.costs.max(initial=0.0)) * self.seconds_per_cost

    @property
    def hash_seconds(self) -> float | None:
        """What it would have been under Spark's hash."""
        return None if self.under_hash is None else float(self.under_hash.max()) * self.seconds_per_cost

    @property
    def hash_imbalance(self) -> float | None:
        """The same under Spark's hash."""
        return None if self.under_hash is None else imbalance_of(self.under_hash)


def imbalance_of(loads: NDArray[np.float64]) -> float:
    """Return the greatest load over the mean.

    >>> imbalance_of(np.array([1.0, 2.0, 3.0]))
    1.5
    """
    mean = float(loads.mean()) if len(loads) else 0.0
    return float(loads.max()) / mean if mean > 0 else 1.0


def hot_keys(
    statistics: Statistics, table: RoutingTable, names: Mapping[int, str], *, measured: bool
) -> tuple[HotKey, ...]:
    """Return the heaviest keys with their shares and their channels; by rows, if no seconds were measured."""
    weight, total = statistics.cost, statistics.total_cost
    if not measured:
        weight, total = statistics.tuples, statistics.total_tuples
    if total <= 0 or not len(statistics.hashes):
        return ()
    heaviest = np.argsort(-weight, kind="stable")[: min(HOT_KEYS, np.count_nonzero(weight))]
    hashes = statistics.hashes[heaviest]
    return tuple(
        HotKey(names.get(key, str(key)), float(share / total), int(channel))
        for key, share, channel in zip(hashes.tolist(), weight[heaviest], table.lookup(hashes), strict=True)
    )


def moves_made(moves: Moves, names: Mapping[int, str]) -> tuple[MoveMade, ...]:
    """Return moves with the values of the keys, where those are known."""
    found: list[MoveMade] = []
    for move in moves:
        if len(found) == MOVES_LISTED:
            break
        key = names.get(move.id, str(move.id)) if move.kind == "key" else str(move.id)
        found.append(MoveMade(move.kind, key, move.source, move.target))
    return tuple(found)


def _camel(name: str) -> str:
    """Spell a name as Spark does.

    Examples
    --------
    >>> _camel("state_bytes")
    'stateBytes'
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
