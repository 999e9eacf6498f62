"""The aggregates of a grouped stream: in words, and with the methods of Spark's `GroupedData`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError, ColumnError
from unskew.operators import Operator
from unskew.operators.aggregate import Aggregate
from unskew.operators.base import EVENT_TIME_METADATA, require_column
from unskew.operators.presum import quoted
from unskew.runtime.settings import Settings
from unskew.spark.columns import Aggregates, Span, from_dict, numeric_columns, spark_types
from unskew.spark.inputs import EVENT_TIME_MARK, arrow_schema
from unskew.spark.plans import has_shuffle
from unskew.spark.stage import Stage
from unskew.versions.arrow import from_arrow_schema

WATERMARK_MARK = "spark.watermarkDelayMs"


@dataclass(frozen=True, eq=False)
class Grouped:
    """A stream grouped by key columns, and perhaps by a window of event time."""

    events: DataFrame  # with a column for every key
    key: tuple[str, ...]
    given: tuple[str | Column, ...]  # what rows are grouped by, as the user spells it
    hidden: tuple[str, ...]  # key columns that are not the user's own: expressions
    settings: Settings
    cores: int  # tasks that can run at once
    span: Span | None = None
    sample: float | None = None  # of static rows: the share that is counted

    def aggregate(self, **aggregates: str) -> Stage:
        """Keep aggregates per key and window: ``aggregate(n="count", total="sum(price * items)")``.

        Without a window, each batch yields one row for every key that had rows in it, as Spark's update mode does.
        """
        reader = Aggregates(self.events)
        return self._stage(reader, {name: reader.in_words(name, text) for name, text in aggregates.items()})

    def agg(self, *exprs: Column | dict[str, str]) -> Stage:
        """Keep aggregates as Spark's ``groupBy(...).agg(...)`` does: same arguments, same columns out.

        ``agg(F.sum("amount").alias("total"), F.count("*"))`` or ``agg({"amount": "sum"})``. An aggregate that unskew
        does not have is refused.
        """
        as_dict = exprs[0] if len(exprs) == 1 and isinstance(exprs[0], dict) else {}
        columns = from_dict(as_dict) if as_dict else [each for each in exprs if isinstance(each, Column)]
        if not columns or len(columns) < len(exprs):
            raise ArgumentError("aggregates must be columns, or one dictionary", got=exprs, hint='F.sum("amount")')
        for each in columns:
            Aggregates(self.events).of(each)  # our errors are clearer than Spark's
        native = self._spark_groups().agg(*exprs)
        if as_dict:  # Spark puts it into an order of its own
            by_name = {self._spark_groups().agg(each).columns[-1]: each for each in columns}
            columns = [by_name[name] for name in native.columns[-len(columns) :]]
        return self._like_spark(native, columns)

    def count(self) -> Stage:
        """Count the rows, in a column ``count``."""
        return self._like_spark(self._spark_groups().count(), [sql.count("*")])

    def sum(self, *cols: str) -> Stage:
        """Add up columns; all numeric ones if none is named."""
        return self._each("sum", cols)

    def avg(self, *cols: str) -> Stage:
        """Return the means of columns; of all numeric ones if none is named."""
        return self._each("avg", cols)

    mean = avg

    def min(self, *cols: str) -> Stage:
        """Return the least values of columns; of all numeric ones if none is named."""
        return self._each("min", cols)

    def max(self, *cols: str) -> Stage:
        """Return the greatest values of columns; of all numeric ones if none is named."""
        return self._each("max", cols)

    def _each(self, function: str, names: Sequence[str]) -> Stage:
        native = getattr(self._spark_groups(), function)(*names)
        over = names or [quoted(name) for name in numeric_columns(self.own)]
        return self._like_spark(native, [getattr(sql, function)(name) for name in over])

    @property
    def own(self) -> DataFrame:
        """The rows as the user gave them."""
        return self.events.drop(*self.hidden) if self.hidden else self.events

    def _spark_groups(self) -> Any:
        """Return Spark's own `GroupedData` for this."""
        columns = list(self.given)
        if self.span is not None and len(columns) == len(self.key):  # it is not among them
            time = self.span.on or self._event_time
            if not time:
                hint = 'name it, on="ts", or call withWatermark("ts", ...) first'
                raise ArgumentError("a window needs a column of times", where="window", hint=hint)
            columns.append(self.span.spelled(quoted(time)))
        return self.own.groupBy(*columns)

    def _like_spark(self, native: DataFrame, aggregates: list[Column]) -> Stage:
        """Return a stage with the columns that Spark gives; inside, each result has a unique name."""
        reader = Aggregates(self.events)
        words: dict[str, str] = {}
        for name, aggregate in zip(native.columns[-len(aggregates) :], aggregates, strict=True):
            own = name.replace(".", "%2E")  # dots separate the names of states
            while own in words or own in self.key or own in ("window", "session_window"):
                own += "'"
            words[own] = reader.of(aggregate)
        return self._stage(reader, words, native.schema)

    def _stage(self, reader: Aggregates, words: dict[str, str], native: StructType | None = None) -> Stage:
        self._check_watermark()
        grouped, span = replace(self, events=reader.rows), self.span

        def in_mode(mode: str | None) -> Stage:
            operator = _running(words, mode) if span is None else span.operator(words, mode)
            return grouped._run(operator, native=native)

        if span is None:
            return replace(in_mode("update"), in_mode=in_mode)
        if span.output_mode is not None or not span.has_modes:
            return in_mode(span.output_mode)
        return replace(in_mode("update"), in_mode=in_mode, default_mode="append")  # which needs a watermark

    @property
    def _event_time(self) -> str:
        """The column with the watermark; empty if there is none."""
        metadata = arrow_schema(self.events).metadata or {}
        return str(metadata.get(EVENT_TIME_METADATA, b""), "utf-8")

    def _check_watermark(self) -> None:
        """Refuse a watermark by which only one of Spark and unskew would drop rows."""
        for name in self.key:
            if WATERMARK_MARK in self.events.schema[name].metadata:
                raise ArgumentError(
                    "a key column has a watermark, by which Spark would drop keys",
                    got=name,
                    hint="group by F.window(...) instead, or leave the watermark out",
                )
        if self.span is None or self.span.on not in self.events.columns:
            return
        time, found = self.span.on, self.events.schema[self.span.on].metadata
        if EVENT_TIME_MARK not in found and (WATERMARK_MARK in found) != (self._event_time == time):
            raise ArgumentError(
                "Spark and unskew do not agree on whether this column has a watermark",
                got=time,
                hint="call withWatermark last, on the column of the window itself",
            )

    def _run(
        self, operator: Operator, output_schema: StructType | None = None, native: StructType | None = None
    ) -> Stage:
        """Run an operator. With `native`, its output has the names that Spark gives it, and must have the types."""
        events, schema = self.events, arrow_schema(self.events)
        if not events.isStreaming:
            raise ArgumentError(
                "this method is for streams, and these rows are static",
                hint="applyInPandas or cogroup; Spark's own groupBy(...).agg(...) has no skew to remove",
            )
        if not self.key:
            raise ArgumentError("there is no key", where="balance", hint="name a column")
        bound = operator.bind(schema, self.key)
        if len(bound.columns_read) < len(schema):
            events = events.select(*map(quoted, bound.columns_read))
            kept = [schema.field(name) for name in bound.columns_read]
            bound = operator.bind(pa.schema(kept, metadata=schema.metadata), self.key)
        for name in bound.columns_read:
            require_column(schema, name)  # only once
            if "." in name or "`" in name:
                what = f"Spark cannot hand a column with a {'dot' if '.' in name else 'backtick'} in its name to Python"
                raise ColumnError(what, got=name, hint="rename it first")
        if self.settings.splitting.by_tuple and not bound.splittable:
            raise ArgumentError(
                "keys of this operator cannot be split: it cannot merge partial states in any order, has timeouts, or "
                "puts out all state in complete mode",
                got=operator,
                hint="leave split= out; every key then has one owner",
            )
        output = output_schema or from_arrow_schema(bound.result_schema)
        planning = self.settings.planning
        planner = planning.planner.knowing(bound.memory, bound.compute)
        return Stage(
            events=events,
            key=self.key,
            operator=bound,
            output_schema=output if native is None else spark_types(native, output),
            settings=replace(self.settings, planning=replace(planning, planner=planner)),
            cores=self.cores,
            shuffled=has_shuffle(self.events),
            output_mode=bound.output_mode,
        )


def _running(aggregates: dict[str, str], mode: str | None) -> Operator:
    if mode == "append":
        raise ArgumentError(
            "append mode needs windows on event time: the aggregates of a key are never final",
            hint='outputMode("update") or outputMode("complete"), or group by F.window(...), too',
        )
    if mode not in ("update", "complete"):
        raise ArgumentError("there is no such output mode", got=mode, hint="update or complete")
    operator = Aggregate(**aggregates)
    return operator.complete() if mode == "complete" else operator
