"""What unskew knows about a batch that has ended, in figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unskew.load.metrics import overload
from unskew.load.statistics import Statistics, combine
from unskew.planners.report import Report
from unskew.spark.decision import Decision
from unskew.spark.reports import ChannelReport

HOT_KEYS = 5


@dataclass(frozen=True)
class HotKey:
    """One of the heaviest keys of a batch: its share of the batch's load, and who owns it."""

    key: str
    share: float
    channel: int


@dataclass(frozen=True)
class BatchFigures:
    """One batch, as it was.

    Parameters
    ----------
    batch_id
        The batch.
    channels
        Channels in use.
    rows, late_rows
        Rows that came to the channels, and those too late to count.
    imbalance
        Overload of the fullest channel over the mean, max/mean - 1, in what planning goes by: seconds in the operator
        where it measures them, rows where not.
    channel_rows, channel_seconds
        Rows of each channel, and seconds in the operator. Under a splitting scheme the rows of each worker.
    hot_keys
        The heaviest keys, heaviest first.
    moved_keys, moved_slots, moved_bytes
        What left its channel at the end of the batch, and how much state that was.
    planner
        Who planned when the batch ended; None if nobody did.
    planning_seconds
        How long that took.
    table_version, table_keys
        Version of the routing table that the batch was routed by, and its entries for single keys.
    state_keys, state_bytes
        What the channels hold after the batch.
    watermark_ms
        The watermark that the batch had; None without event time.
    """

    batch_id: int
    channels: int
    rows: int
    late_rows: int
    imbalance: float
    channel_rows: tuple[int, ...]
    channel_seconds: tuple[float, ...]
    hot_keys: tuple[HotKey, ...]
    moved_keys: int
    moved_slots: int
    moved_bytes: int
    planner: str | None
    planning_seconds: float
    table_version: int
    table_keys: int
    state_keys: int
    state_bytes: int
    watermark_ms: int | None

    @classmethod
    def of(cls, decision: Decision, reports: Mapping[int, ChannelReport], plan: Report | None) -> BatchFigures:
        """Put together what was decided for the batch, what its channels reported, and what was planned after it."""
        present = [reports[channel] for channel in sorted(reports)]
        costs = np.zeros(decision.channels_called)
        rows, seconds = np.zeros(len(costs), np.int64), np.zeros(len(costs))
        for report in present:
            if report.channel < len(costs):
                costs[report.channel] = report.statistics.total_cost
                rows[report.channel], seconds[report.channel] = report.rows, report.seconds
        workers = np.array([report.worker_rows for report in present if report.worker_rows], np.int64)
        if len(workers):  # a splitting scheme: the work is done before the rows reach their owners
            rows = workers.sum(axis=0)[: len(costs)]
            costs = rows.astype(np.float64)
        extracted = [state for report in present for state in report.extracted.values()]
        return cls(
            batch_id=decision.batch_id,
            channels=decision.table.channels,
            rows=sum(report.rows for report in present),
            late_rows=sum(report.late_rows for report in present),
            imbalance=overload(costs[: decision.table.channels]),
            channel_rows=tuple(rows.tolist()),
            channel_seconds=tuple(seconds.tolist()),
            hot_keys=hot_keys(combine([report.statistics for report in present]), decision),
            moved_keys=len(decision.extract.keys),
            moved_slots=len(decision.extract.slots),
            moved_bytes=sum(state.nbytes for state in extracted),
            planner=None if plan is None else plan.planner,
            planning_seconds=0.0 if plan is None else plan.seconds,
            table_version=decision.table.version,
            table_keys=len(decision.table.explicit_hashes),
            state_keys=sum(report.state_rows for report in present),
            state_bytes=sum(report.state_bytes for report in present),
            watermark_ms=max((r.watermark_ms for r in present if r.watermark_ms is not None), default=None),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as a section of Spark's progress: plain values, names as Spark spells its own."""
        figures = {_camel(name): value for name, value in asdict(self).items() if name != "batch_id"}
        return {**figures, "hotKeys": [asdict(key) for key in self.hot_keys]} | {
            name: list(figures[name]) for name in ("channelRows", "channelSeconds")
        }


def hot_keys(statistics: Statistics, decision: Decision, most: int = HOT_KEYS) -> tuple[HotKey, ...]:
    """Return the heaviest keys with their shares of the load and their channels."""
    total = statistics.total_cost
    if total <= 0 or not len(statistics.hashes):
        return ()
    heaviest = np.argsort(-statistics.cost, kind="stable")[: min(most, np.count_nonzero(statistics.cost))]
    channels = decision.table.lookup(statistics.hashes[heaviest])
    names = heaviest.tolist() if statistics.keys is None else [statistics.keys[i].as_py() for i in heaviest.tolist()]
    return tuple(
        HotKey(str(name), float(statistics.cost[i] / total), int(channel))
        for name, i, channel in zip(names, heaviest.tolist(), channels.tolist(), strict=True)
    )


def _camel(name: str) -> str:
    """Spell a name as Spark does.

    Examples
    --------
    >>> _camel("state_bytes")
    'stateBytes'
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
