"""``unskew.balance``: the one line that changes in a user's job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from unskew.errors import ArgumentError, ColumnError
from unskew.hashing import check_key_type
from unskew.operators import Operator
from unskew.operators.base import EVENT_TIME_METADATA
from unskew.planners import Planner
from unskew.planners import planner as make_planner
from unskew.routing.table import DEFAULT_SLOTS
from unskew.spark.controller import Controller
from unskew.spark.stage import Stage

GIBIBYTE = 1 << 30

# logical nodes that keep the order of rows within a partition; anything else may shuffle
ORDER_KEPT = {
    "Project",
    "Filter",
    "SubqueryAlias",
    "EventTimeWatermark",
    "MapInArrow",
    "MapInPandas",
    "Generate",
    "Union",
}


def balance(
    events: DataFrame,
    key: str | Sequence[str],
    *,
    channels: int = 8,
    planner: str | Planner = "mixed",
    tolerance: float | None = None,
    interval: int = 1,
    tracked_keys: int | None = 2000,
    max_move_bytes: int = 64 << 20,
    min_gain: float = 0.02,
    slots: int = DEFAULT_SLOTS,
    cache_bytes: int = GIBIBYTE,
) -> BalancedStream:
    """Group a stream by a key, as ``events.groupBy(key)`` does, and keep the work balanced while it runs.

    Every key has one owner among the channels; when loads drift apart, state moves to other channels between two
    batches. The results are those of Spark alone.

    Parameters
    ----------
    events
        A streaming DataFrame.
    key
        The key's column or columns.
    channels
        Groups that work side by side; like the number of shuffle partitions of a native job.
    planner
        Who decides which channel owns which key: a name (``unskew planners`` lists them) or a `Planner`.
    tolerance
        Overload allowed over the mean, max/mean - 1; the planner's own default where not given.
    interval
        Batches between two plans at least.
    tracked_keys
        Keys that each channel reports one by one, at most; the rest is reported by slot. None reports all.
    max_move_bytes
        State that may move in one batch.
    min_gain
        Plans are carried out only if they make the fullest channel lighter by this share of the mean.
    slots
        Slots of the routing table; fixed for the life of a checkpoint.
    cache_bytes
        Budget of each executor's local cache of state.
    """
    if not events.isStreaming:
        raise ArgumentError("balance needs a streaming DataFrame", hint="read it with spark.readStream")
    names = (key,) if isinstance(key, str) else tuple(key)
    for name in names:
        if name not in events.columns:
            raise ColumnError("there is no column of that name", got=name, hint=f"one of {', '.join(events.columns)}")
        check_key_type(name, events.schema[name].dataType.simpleString())
    if channels < 1:
        raise ArgumentError("a stream needs at least one channel", got=channels)
    parameters: dict[str, Any] = {} if tolerance is None else {"tolerance": tolerance}
    chosen = make_planner(planner, **parameters) if isinstance(planner, str) else planner
    controller = Controller(chosen, interval, max_move_bytes, min_gain)
    return BalancedStream(events, names, channels, slots, controller, tracked_keys, cache_bytes)


@dataclass(frozen=True, eq=False)
class BalancedStream:
    """A stream grouped by key, in place of Spark's `GroupedData`: say what shall be done per key."""

    events: DataFrame
    key: tuple[str, ...]
    channels: int
    slots: int
    controller: Controller
    tracked_keys: int | None
    cache_bytes: int

    def aggregate(self, **aggregates: str) -> Stage:
        """Keep running aggregates per key: ``aggregate(n="count", total="sum(amount)")``.

        Each batch yields one row for every key that had rows in it, as Spark's update mode does.
        """
        from unskew.operators.aggregate import Aggregate

        return self.apply(Aggregate(**aggregates))

    def apply(self, operator: Operator) -> Stage:
        """Run any operator."""
        bound = operator.bind(_arrow_schema(self.events), self.key)
        return Stage(
            events=self.events,
            operator=bound,
            output_schema=from_arrow_schema(bound.output_schema, prefer_timestamp_ntz=True),
            channels=self.channels,
            max_channels=self.channels,
            slots=self.slots,
            controller=self.controller,
            tracked_keys=self.tracked_keys,
            cache_bytes=self.cache_bytes,
            shuffled=has_shuffle(self.events),
        )


def _arrow_schema(rows: DataFrame) -> pa.Schema:
    """Return the rows' schema as tasks see it, with the column of the watermark, if there is one, in its metadata."""
    schema = to_arrow_schema(rows.schema, timezone=rows.sparkSession.conf.get("spark.sql.session.timeZone"))
    watermarks = [node.eventTime().name() for node in _nodes(rows) if node.nodeName() == "EventTimeWatermark"]
    if len(watermarks) > 1:
        raise ArgumentError("a stream may have one watermark", got=watermarks)
    return schema.with_metadata({EVENT_TIME_METADATA: watermarks[0]}) if watermarks else schema


def has_shuffle(rows: DataFrame) -> bool:
    """Tell whether anything above these rows may change their order within a partition from one run to the next."""
    return any(node.children().size() and node.nodeName() not in ORDER_KEPT for node in _nodes(rows))


def _nodes(rows: DataFrame) -> Iterator[Any]:
    """Yield the nodes of the rows' logical plan."""
    waiting: list[Any] = [rows._jdf.queryExecution().analyzed()]
    while waiting:
        node = waiting.pop()
        yield node
        children = node.children()
        waiting.extend(children.apply(i) for i in range(children.size()))
