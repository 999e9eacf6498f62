"""Two inputs grouped by the same key: what `Balanced.cogroup` gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError
from unskew.planners import Plan
from unskew.spark.batch import BatchPair, BatchStage, Form, OfBatchPair, together

if TYPE_CHECKING:
    from unskew.spark.balanced import Balanced


@dataclass(frozen=True, eq=False)
class BalancedPair:
    """Two inputs grouped by the same key, in place of Spark's `PandasCogroupedOps`.

    The inputs are two static DataFrames or two streams. Every micro-batch of streams is grouped on its own, as under
    Spark.
    """

    left: Balanced
    right: Balanced

    def applyInPandas(self, func: Callable[..., Any], schema: StructType | str) -> DataFrame | BatchStage:  # noqa: N802
        """Call ``func(left, right)`` or ``func(key, left, right)`` for every key that one of the inputs has.

        Arguments, rows and errors are those of Spark's method. The load of a key is its rows in both inputs.
        """
        return self._call("applyInPandas", func, schema)

    def applyInArrow(self, func: Callable[..., Any], schema: StructType | str) -> DataFrame | BatchStage:  # noqa: N802
        """Call a function with two `pyarrow.Table`; see `applyInPandas`."""
        return self._call("applyInArrow", func, schema)

    @cached_property
    def plan(self) -> Plan:
        """The routing table for both static inputs, and what it does, in figures."""
        return BatchPair(self.left.at_hand, self.right.at_hand).plan

    def _call(self, method: str, func: Callable[..., Any], schema: StructType | str) -> DataFrame | BatchStage:
        form, (left, right) = Form(method, inputs=2), (self.left.keyed, self.right.keyed)
        native = form.on(self.left.spark_groups.cogroup(self.right.spark_groups), func, schema)
        mine, theirs = ([each.rows.schema[name].dataType for name in each.spread.key] for each in (left, right))
        if mine != theirs:
            kinds = [", ".join(kind.simpleString() for kind in side) for side in (mine, theirs)]
            raise ArgumentError(f"the keys have different types: {kinds[0]}", got=kinds[1], hint="cast one of them")
        if left.rows.isStreaming != right.rows.isStreaming:
            raise ArgumentError(
                "cogroup takes two streams or two static DataFrames, and these are one of each",
                hint="call cogroup on the rows of a batch, in foreachBatch",
            )
        if left.rows.isStreaming:
            grouped = OfBatchPair((left.spread, right.spread), form, func, native.schema)
            return BatchStage(together(left.rows, right.rows), grouped, native.schema)
        return BatchPair(self.left.at_hand, self.right.at_hand).call(form, func, schema)
