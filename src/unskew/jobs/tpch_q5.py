"""TPC-H's query 5 as a continuous query: four balanced stages, each with its own routing table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from unskew.errors import ArgumentError
from unskew.operators import IntervalJoin, TableJoin
from unskew.operators.durations import microseconds
from unskew.spark.balance import balance
from unskew.spark.committed import read_committed
from unskew.spark.inputs import tagged
from unskew.spark.query import BalancedQuery
from unskew.spark.stage import Stage
from unskew.testing import write_batches
from unskew.workloads.base import START
from unskew.workloads.tpch import Tpch

STAGES = ("customer", "supplier", "order", "nation")

# as TPC-H has it, but for the dates, which have become windows
QUERY = """
SELECT n_name AS nation, unix_micros(start) AS start, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM {customer}, {orders}, {lineitem}, {supplier}, {nation}, {region},
     (SELECT explode(sequence(timestamp_micros({first}), timestamp_micros({last}), INTERVAL {slide})) AS start)
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
  AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
  AND r_name = {name}
  AND o_time >= start AND o_time < start + INTERVAL {window}
  AND l_time >= start AND l_time < start + INTERVAL {window}
GROUP BY n_name, start
"""

TIE = "1 millisecond"  # rows of one time may be in two batches: those in the second are not late

Results = dict[tuple[str, int], Decimal]


@dataclass(frozen=True)
class Inputs:
    """What query 5 reads: two streams, two tables that may change, and two that do not."""

    orders: DataFrame
    lineitem: DataFrame
    customer: DataFrame
    supplier: DataFrame
    nation: DataFrame
    region: DataFrame


@dataclass(frozen=True)
class TpchQ5:
    """Revenue per nation of a region and sliding window, from orders and line items that share a window.

    Orders meet their customers (stage ``customer``) and line items their suppliers (``supplier``); other regions stop
    here. Orders then meet line items at most a window apart (``order``), and the pairs of one nation are added up by
    window (``nation``). Each stage is a query with its own routing table and moves. It reads the committed output of
    the stage before it.

    A pair counts in every window that holds both of its rows. It becomes one row for each of them, at the window's
    start, so that the last stage needs only windows as long as a slide.

    The revenues equal those of `QUERY` if orders and line items each come in order of time. One stream may be far ahead
    of the other: a stage forgets a row only when nothing can meet it any more.

    References
    ----------
    TPC Benchmark H, section 2.4.5; Fang et al., figure 16.
    """

    spark: SparkSession
    inputs: Inputs
    folder: str  # for checkpoints and the output of stages
    window: str = "5 minutes"
    slide: str = "1 minute"  # from the start of one window to that of the next
    region: str = "ASIA"  # whose customers and suppliers count
    output_mode: str = "append"  # each window once, when it is final; "update": as it grows
    options: Mapping[str, Any] = field(default_factory=dict)  # for `unskew.balance`, in all stages

    def __post_init__(self) -> None:
        if not 0 < microseconds(self.slide) <= microseconds(self.window):
            raise ArgumentError("windows must slide by more than zero and at most their size", got=self.slide)

    @cached_property
    def stages(self) -> dict[str, Stage]:
        """The four stages by name."""
        customer, supplier = self._customer(), self._supplier()
        order = self._order(self._log("customer", customer), self._log("supplier", supplier))
        return dict(zip(STAGES, (customer, supplier, order, self._nation(self._log("order", order))), strict=True))

    def start(self, name: str, **trigger: Any) -> BalancedQuery:
        """Start one stage, with a trigger of Spark's; all four may run at the same time."""
        writer = self.stages[name].writeStream.option("checkpointLocation", self._checkpoint(name))
        return writer.trigger(**trigger).format("parquet").start(self._output(name))

    def run(self) -> dict[str, BalancedQuery]:
        """Run the stages one after the other on all rows that are there; return the ended queries."""
        queries = {}
        for name in STAGES:
            queries[name] = self.start(name, availableNow=True)
            queries[name].awaitTermination()
        return queries

    def results(self) -> Results:
        """Return the last revenue of each nation and window, which is named by its start in microseconds."""
        folders = [each for each in Path(self._output("nation")).iterdir() if re.fullmatch(r"batch_id=\d+", each.name)]
        found: Results = {}
        for folder in sorted(folders, key=lambda each: int(each.name.partition("=")[2])):
            rows = pq.read_table(folder, partitioning=None).flatten()
            starts = rows["window.start"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
            windows = zip(rows["nation"].to_pylist(), starts.to_pylist(), strict=True)
            found |= dict(zip(windows, rows["revenue"].to_pylist(), strict=True))
        return found

    def _customer(self) -> Stage:
        customer = self._of_region(self.inputs.customer, "c_nationkey").selectExpr("c_custkey AS custkey", "nation")
        orders = self.inputs.orders.selectExpr("o_custkey AS custkey", "o_orderkey AS orderkey", "o_time AS time")
        rows = tagged("custkey", customer=customer, orders=orders)
        return balance(rows, "custkey", **self.options).apply(TableJoin("customer"))

    def _supplier(self) -> Stage:
        supplier = self._of_region(self.inputs.supplier, "s_nationkey").selectExpr("s_suppkey AS suppkey", "nation")
        lineitem = self.inputs.lineitem.selectExpr(
            "l_suppkey AS suppkey",
            "l_orderkey AS orderkey",
            "l_extendedprice * (1 - l_discount) AS revenue",
            "l_time AS time",
        )
        rows = tagged("suppkey", supplier=supplier, lineitem=lineitem)
        return balance(rows, "suppkey", **self.options).apply(TableJoin("supplier"))

    def _order(self, customer: DataFrame, supplier: DataFrame) -> Stage:
        orders = customer.selectExpr(
            "orders_orderkey AS orderkey", "customer_nation AS nation", "orders_time AS time"
        ).withWatermark("time", TIE)
        lineitem = supplier.selectExpr(
            "lineitem_orderkey AS orderkey",
            "supplier_nation AS nation",
            "lineitem_revenue AS revenue",
            "lineitem_time AS time",
        ).withWatermark("time", TIE)
        rows = tagged("orderkey", orders=orders, lineitem=lineitem)
        join = IntervalJoin("orders", "lineitem", earliest=f"-{self.window}", latest=self.window)
        return balance(rows, "orderkey", **self.options).apply(join)

    def _nation(self, pairs: DataFrame) -> Stage:
        window, slide = microseconds(self.window), microseconds(self.slide)
        earlier, later = (f"unix_micros({which}(orders_time, lineitem_time))" for which in ("least", "greatest"))
        rows = (
            pairs.where("orders_nation = lineitem_nation")
            .selectExpr(
                "orders_nation AS nation",
                "lineitem_revenue AS revenue",
                f"(({later} - {window}) DIV {slide} + 1) * {slide} AS first",
                f"{earlier} DIV {slide} * {slide} AS last",
            )
            .where("first <= last")
            .selectExpr("nation", "revenue", f"explode(sequence(first, last, {slide})) AS start")
            .selectExpr("nation", "revenue", "timestamp_micros(start) AS start")
            .withWatermark("start", self.window)
        )
        grouped = balance(rows, "nation", **self.options)
        return grouped.window(self.slide, output_mode=self.output_mode).aggregate(revenue="sum(revenue)")

    def _of_region(self, rows: DataFrame, key: str) -> DataFrame:
        """Return the rows whose nation is in the region, with its name."""
        region = self.inputs.region.where(sql.col("r_name") == self.region)
        nations = self.inputs.nation.join(region, sql.expr("n_regionkey = r_regionkey"))
        nations = nations.selectExpr(f"n_nationkey AS {key}", "n_name AS nation")
        return rows.join(sql.broadcast(nations), key)

    def _log(self, name: str, stage: Stage) -> DataFrame:
        return read_committed(self.spark, self._output(name), stage.output_schema, checkpoint=self._checkpoint(name))

    def _output(self, name: str) -> str:
        return f"{self.folder}/{name}/out"

    def _checkpoint(self, name: str) -> str:
        return f"{self.folder}/{name}/checkpoint"


def write(tpch: Tpch, folder: str, slices: int) -> None:
    """Write the tables to folders; each stream becomes `slices` files in order of time."""
    for name, rows in tpch.tables()._asdict().items():
        parts = tpch.slices(rows, slices) if name in ("orders", "lineitem") else [rows]
        write_batches(Path(folder) / name, parts)


def read(spark: SparkSession, folder: str) -> Inputs:
    """Return the written tables as static rows."""
    return Inputs(**{each.name: spark.read.parquet(f"{folder}/{each.name}") for each in fields(Inputs)})


def read_stream(spark: SparkSession, folder: str) -> Inputs:
    """Return the written tables as streams, one file per batch; nations and regions stay static."""
    static = read(spark, folder)
    names = [each.name for each in fields(Inputs) if each.name not in ("nation", "region")]
    stream = {name: spark.readStream.schema(getattr(static, name).schema) for name in names}
    return replace(
        static, **{name: stream[name].option("maxFilesPerTrigger", 1).parquet(f"{folder}/{name}") for name in names}
    )


def batch_results(spark: SparkSession, inputs: Inputs, tpch: Tpch, window: str, slide: str, region: str) -> Results:
    """Return what Spark SQL gives for the same windows on static rows."""
    step = microseconds(slide)
    first = (START - microseconds(window)) // step * step
    last = START + round(tpch.span_seconds * 1e6)
    tables: dict[str, Any] = {each.name: getattr(inputs, each.name) for each in fields(Inputs)}
    rows = spark.sql(QUERY, **tables, first=first, last=last, window=window, slide=slide, name=region).collect()
    return {(row.nation, row.start): row.revenue for row in rows}
