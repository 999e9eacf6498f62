"""Rows at hand, grouped by key: counted, planned, sent to their channels, and there grouped by Spark itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql.types import StructType

from unskew.load.statistics import Statistics, combine
from unskew.operators.presum import quoted
from unskew.planners import Planner
from unskew.planners.base import Plan
from unskew.routing.table import RoutingTable
from unskew.runtime.reach import within_reach
from unskew.spark.batch.functions import Form
from unskew.spark.batch.routing import CHANNEL, placed
from unskew.spark.batch.statistics import key_statistics


@dataclass(frozen=True, eq=False)
class Spread:
    """By which key rows are spread, and over what."""

    key: tuple[str, ...]
    hidden: tuple[str, ...]  # columns that functions do not see
    channels: int
    slots: int
    planner: Planner
    tracked_keys: int | None
    sample: float | None

    @property
    def added(self) -> tuple[str, ...]:
        """The columns that grouped rows have, and the user's rows have not."""
        return (*self.hidden, CHANNEL)


@dataclass(frozen=True, eq=False)
class BalancedBatch:
    """Rows grouped by key. All rows of a key go to the channel that the plan names.

    There Spark itself groups them and calls the function, so what comes out, and what is an error, is Spark's. The plan
    is made when it is first needed, from one pass over the key's columns or a sample of them. Everything else is as
    lazy as in Spark.
    """

    rows: DataFrame  # with a column for every key
    spread: Spread

    def call(self, form: Form, func: Callable[..., Any], schema: StructType | str) -> DataFrame:
        """Call a function for every key, as the method of Spark's `GroupedData` does that `form` names."""
        if not self.spread.key:
            return form.on(self.rows.groupBy(), func, schema)
        return form.on(self.under(self.plan.table), form.without((self.spread.added,), func), schema)

    @cached_property
    def statistics(self) -> Statistics:
        """Rows by key."""
        spread = self.spread
        return key_statistics(self.rows, spread.key, spread.slots, spread.tracked_keys, spread.sample)

    @cached_property
    def plan(self) -> Plan:
        """The routing table for these rows, and what it does, in figures."""
        return self.plan_for(self.statistics)

    def plan_for(self, statistics: Statistics) -> Plan:
        """Plan from a fresh table, where no move costs anything."""
        table, planner = RoutingTable.initial(self.spread.channels, self.spread.slots), self.spread.planner
        if statistics.total_cost > 0:
            planner = within_reach(planner, statistics, table)
        return planner.plan(statistics, table)

    def under(self, table: RoutingTable) -> GroupedData:
        """Return Spark's grouping by channel and key, of rows that lie where the table says."""
        key = self.spread.key
        return placed(self.rows, key, table).groupBy(*map(quoted, (CHANNEL, *key)))


@dataclass(frozen=True, eq=False)
class BatchPair:
    """Two inputs grouped by the same key. The load of a key is its rows in both."""

    left: BalancedBatch
    right: BalancedBatch

    def call(self, form: Form, func: Callable[..., Any], schema: StructType | str) -> DataFrame:
        """Call a function for every key that one of the inputs has."""
        left, right = self.left, self.right
        if not left.spread.key:
            return form.on(left.rows.groupBy().cogroup(right.rows.groupBy()), func, schema)
        groups = left.under(self.plan.table).cogroup(right.under(self.plan.table))
        return form.on(groups, form.without((left.spread.added, right.spread.added), func), schema)

    @cached_property
    def plan(self) -> Plan:
        """The routing table for both inputs, and what it does, in figures."""
        return self.left.plan_for(combine([self.left.statistics, self.right.statistics]))
