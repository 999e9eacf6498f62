"""A static DataFrame grouped by key: what `unskew.balance` does with one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from unskew.errors import ArgumentError
from unskew.load.statistics import Statistics, combine
from unskew.planners import Planner
from unskew.planners.base import Plan
from unskew.routing.table import RoutingTable
from unskew.runtime.reach import within_reach
from unskew.spark.batch.functions import GroupCalls, wants_key
from unskew.spark.batch.routing import placed
from unskew.spark.batch.statistics import key_statistics
from unskew.spark.per_key import ArrowSettings
from unskew.versions.arrow import to_arrow_schema


@dataclass(frozen=True, eq=False)
class BalancedBatch:
    """Rows grouped by key, in place of Spark's `GroupedData`. All rows of a key go to the channel that the plan names.

    The plan is made when it is first needed, from one pass over the key's columns or a sample of them. Everything else
    is as lazy as in Spark.
    """

    rows: DataFrame
    key: tuple[str, ...]
    channels: int
    slots: int
    planner: Planner
    tracked_keys: int | None
    sample: float | None

    def applyInPandas(self, func: Callable[..., Any], schema: StructType | str) -> DataFrame:  # noqa: N802
        """Call ``func(frame)`` or ``func(key, frame)`` for every key, as Spark's method of this name does.

        A task holds all rows of its channel in memory; Spark's holds those of one group.
        """
        return _calls((self,), self.plan.table, func, schema)

    def cogroup(self, other: BalancedBatch) -> BalancedPair:
        """Group with other rows by the same key. Key columns are matched by position and must have the same types."""
        mine, theirs = ([each.rows.schema[name].dataType for name in each.key] for each in (self, other))
        if mine != theirs:
            kinds = [", ".join(kind.simpleString() for kind in side) for side in (mine, theirs)]
            raise ArgumentError(f"the keys have different types: {kinds[0]}", got=kinds[1], hint="cast one of them")
        return BalancedPair(self, other)

    @cached_property
    def statistics(self) -> Statistics:
        """Rows by key."""
        return key_statistics(self.rows, self.key, self.slots, self.tracked_keys, self.sample)

    @cached_property
    def plan(self) -> Plan:
        """The routing table for these rows, and what it does, in figures."""
        return self.plan_for(self.statistics)

    def plan_for(self, statistics: Statistics) -> Plan:
        """Plan from a fresh table, where no move costs anything."""
        table = RoutingTable.initial(self.channels, self.slots)
        planner = within_reach(self.planner, statistics, table) if statistics.total_cost > 0 else self.planner
        return planner.plan(statistics, table)


@dataclass(frozen=True, eq=False)
class BalancedPair:
    """Two inputs grouped by the same key, in place of Spark's `PandasCogroupedOps`."""

    left: BalancedBatch
    right: BalancedBatch

    def applyInPandas(self, func: Callable[..., Any], schema: StructType | str) -> DataFrame:  # noqa: N802
        """Call ``func(left, right)`` or ``func(key, left, right)`` for every key that one of the inputs has.

        The load of a key is its rows in both.
        """
        return _calls((self.left, self.right), self.plan.table, func, schema)

    @cached_property
    def plan(self) -> Plan:
        """The routing table for both inputs, and what it does, in figures."""
        return self.left.plan_for(combine([self.left.statistics, self.right.statistics]))


def _calls(
    inputs: tuple[BalancedBatch, ...], table: RoutingTable, func: Callable[..., Any], schema: StructType | str
) -> DataFrame:
    spark = inputs[0].rows.sparkSession
    output = DataType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(output, StructType):
        raise ArgumentError("an output schema names columns", where="schema", got=schema, hint='"user string, n long"')
    timezone = spark.conf.get("spark.sql.session.timeZone")
    calls = GroupCalls(
        function=func,
        takes_key=wants_key(func, len(inputs)),
        keys=tuple(each.key for each in inputs),
        schemas=tuple(to_arrow_schema(each.rows.schema, timezone=timezone) for each in inputs),
        output=output,
        settings=ArrowSettings.of(spark),
    )
    return placed([(each.rows, each.key) for each in inputs], table).mapInArrow(calls, output)
