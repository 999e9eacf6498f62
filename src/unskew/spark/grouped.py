"""The aggregates of a grouped stream: in words, and with the methods of Spark's `GroupedData`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError
from unskew.operators import Operator
from unskew.operators.aggregate import Aggregate
from unskew.operators.base import EVENT_TIME_METADATA
from unskew.operators.presum import quoted
from unskew.runtime.settings import Settings
from unskew.spark.columns import Aggregates, from_dict, numeric_columns
from unskew.spark.grouping import WATERMARK_MARK, Span
from unskew.spark.inputs import EVENT_TIME_MARK, arrow_schema
from unskew.spark.stage import Stage


@dataclass(frozen=True, eq=False)
class Grouped(ABC):
    """A stream grouped by key columns and perhaps by a window of event time.

    Parameters
    ----------
    events, key
        The stream and the key columns.
    settings, cores
        How it is balanced, and the tasks that can run at once.
    span
        The window.
    """

    events: DataFrame
    key: tuple[str, ...]
    settings: Settings
    cores: int
    span: Span | None = None

    @abstractmethod
    def _run(
        self, operator: Operator, output_schema: StructType | None = None, native: StructType | None = None
    ) -> Stage:
        """Run an operator; its output has the names that Spark gives it in `native`, and must have the types."""

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
            raise ArgumentError("aggregates are columns, or one dictionary", got=exprs, hint='F.sum("amount")')
        for each in columns:
            Aggregates(self.events).of(each)  # before Spark says what it thinks of it
        native = self._spark_groups().agg(*exprs)
        if as_dict:  # which Spark puts into an order of its own
            by_name = {self._spark_groups().agg(each).columns[-1]: each for each in columns}
            columns = [by_name[name] for name in native.columns[-len(columns) :]]
        return self._like_spark(native, columns)

    def count(self) -> Stage:
        """Count the rows, in a column ``count``."""
        return self._like_spark(self._spark_groups().count(), [sql.count("*")])

    def sum(self, *cols: str) -> Stage:
        """Add up columns; all that are numbers if none is named."""
        return self._each("sum", cols)

    def avg(self, *cols: str) -> Stage:
        """Return means of columns; of all that are numbers if none is named."""
        return self._each("avg", cols)

    mean = avg

    def min(self, *cols: str) -> Stage:
        """Return the least values of columns; of all that are numbers if none is named."""
        return self._each("min", cols)

    def max(self, *cols: str) -> Stage:
        """Return the greatest values of columns; of all that are numbers if none is named."""
        return self._each("max", cols)

    def _each(self, function: str, names: Sequence[str]) -> Stage:
        native = getattr(self._spark_groups(), function)(*names)
        over = names or [quoted(name) for name in numeric_columns(self.events)]
        return self._like_spark(native, [getattr(sql, function)(name) for name in over])

    def _spark_groups(self) -> Any:
        """Return what Spark has in this place."""
        columns = [sql.col(quoted(name)) for name in self.key]
        if self.span is not None:
            place = len(columns) if self.span.place is None else self.span.place
            columns.insert(place, self.span.spelled(quoted(self.span.on or self._event_time)))
        return self.events.groupBy(*columns)

    def _like_spark(self, native: DataFrame, aggregates: list[Column]) -> Stage:
        """Return a stage with the columns of Spark's own; inside, each result has a name that no other column has."""
        reader = Aggregates(self.events)
        words: dict[str, str] = {}
        for name, aggregate in zip(native.columns[-len(aggregates) :], aggregates, strict=True):
            own = name.replace(".", "%2E")  # states have names with dots
            while own in words or own in self.key or own in ("window", "session_window"):
                own += "'"
            words[own] = reader.of(aggregate)
        return self._stage(reader, words, native.schema)

    def _stage(self, reader: Aggregates, words: dict[str, str], native: StructType | None = None) -> Stage:
        self._check_watermark()
        grouped, span = replace(self, events=reader.rows), self.span

        def in_mode(mode: str | None) -> Stage:
            operator = running(words, mode) if span is None else span.operator(words, mode)
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
        """Refuse where Spark would drop rows by a watermark that unskew does not go by, or the other way round."""
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


def running(aggregates: dict[str, str], mode: str | None) -> Operator:
    """Return running aggregates in a mode."""
    if mode == "append":
        raise ArgumentError(
            "append mode needs windows on event time: the aggregates of a key are never final",
            hint='outputMode("update") or outputMode("complete"), or group by F.window(...), too',
        )
    if mode not in ("update", "complete"):
        raise ArgumentError("there is no such output mode", got=mode, hint="update or complete")
    operator = Aggregate(**aggregates)
    return operator.complete() if mode == "complete" else operator
