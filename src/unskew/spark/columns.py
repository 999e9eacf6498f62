"""Grouping columns and aggregates as Spark spells them, read into what operators understand."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

from pyspark.errors import ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import NumericType, StructField, StructType

from unskew.errors import ArgumentError, ColumnError, did_you_mean
from unskew.hashing import check_key_type
from unskew.operators import Operator
from unskew.operators.aggregate import RESULTS, expression_column, function_names, parse_call
from unskew.operators.aggregate_functions import Count
from unskew.operators.presum import quoted
from unskew.operators.session_aggregate import SessionAggregate
from unskew.operators.window_aggregate import WindowAggregate
from unskew.spark.internals import NAME_IT, Call, are_equal, read_call, read_selected

# names that Spark takes in agg({"amount": "mean"}), and the functions that it means
IN_A_DICT = {"average": "avg", "mean": "avg", "std": "stddev", "size": "count"}


@dataclass(frozen=True)
class Span:
    """A window of event time among the columns that a stream is grouped by."""

    make: Callable[..., Any]  # makes the operator: make(aggregates=..., output_mode=...)
    spelled: Callable[[str], Column]  # returns the window on a column of times as Spark spells it
    on: str | None = None  # the column of times; None for the one with the watermark
    place: int | None = None  # position among the keys; None for behind them
    output_mode: str | None = None  # None if writeStream.outputMode decides
    has_modes: bool = True  # if not, `make` takes no output mode

    def operator(self, aggregates: dict[str, str], mode: str | None) -> Operator:
        modes = {"output_mode": mode or "append"} if self.has_modes else {}
        made = self.make(aggregates=aggregates, **modes)
        return made if self.place is None else made.placed(self.place)  # type: ignore[no-any-return]


def grouping(
    events: DataFrame, key: str | Column | Sequence[str | Column], *more: str | Column
) -> tuple[tuple[str, ...], Span | None]:
    """Return the key columns, and the window if there is one."""
    given: list[Any] = [*(key if isinstance(key, (list, tuple, set)) else [key]), *more]
    names: list[str] = []
    span = None
    for each in given:
        if not isinstance(each, (str, Column)):
            raise ArgumentError(
                "a key must be the name of a column, or a column", got=each, hint='"user" or F.col("user")'
            )
        call = None if isinstance(each, str) else read_call(events.sparkSession, each)
        if isinstance(each, str):
            names.append(each)
        elif call is None or call.function not in ("window", "session_window"):
            names.append(_name(events, each))
        elif span is None:
            span = _span(events, each, call, len(names))
        else:
            raise ArgumentError("only one window is possible", got=str(each), hint="leave one out")
    for name in names:
        if name not in events.columns:
            hint = did_you_mean(name, events.columns)
            raise ColumnError("there is no column of that name", where="the key", got=name, hint=hint)
        if names.count(name) > 1:
            raise ArgumentError("a column is named twice", where="the key", got=name, hint="name it once")
        check_key_type(name, events.schema[name].dataType.simpleString())
    if not names:
        raise ArgumentError("there is no key", got=given, hint="name a column beside the window")
    if span is not None and span.place == len(names):
        span = replace(span, place=None)
    return tuple(names), span


def _name(events: DataFrame, column: Column) -> str:
    read = read_selected(events, column)
    if read is None or read[1] is None:
        raise ArgumentError("a key must be a column of the stream", got=str(column), hint=NAME_IT)
    return read[1]


def _span(events: DataFrame, column: Column, call: Call, place: int) -> Span:
    time, *rest = call.arguments
    durations = [each.literal for each in rest if each.literal is not None]
    if call.clause or not durations or len(durations) < len(rest):
        raise ArgumentError(
            "a window needs a column of times and fixed durations",
            got=str(column),
            hint='F.window("ts", "5 minutes") or F.session_window("ts", "5 minutes")',
        )
    on, size = _name(events, time.column), durations[0]
    if call.function == "session_window":
        return Span(partial(SessionAggregate, size, on), lambda _: column, on, place, has_modes=False)
    slide, offset = (*durations[1:], *(size, "0 seconds")[len(durations) - 1 :])
    return Span(partial(WindowAggregate, size, slide, offset, on), lambda _: column, on, place)


class Aggregates:
    """Reads aggregates of a stream into calls in words, and collects the expressions that they are over.

    Spark evaluates the expressions in a select. So an operator sees a column for each distinct expression, named after
    its text (`expression_column`). Whatever cannot be read for certain is refused.
    """

    def __init__(self, events: DataFrame) -> None:
        self._events, self._spark = events, events.sparkSession
        self._expressions: dict[str, Column] = {}

    @property
    def rows(self) -> DataFrame:
        """The stream, with one more column for every expression."""
        if not self._expressions:
            return self._events
        added = [column.alias(expression_column(text)) for text, column in self._expressions.items()]
        return self._events.select("*", *added)

    def in_words(self, name: str, text: str) -> str:
        """Return an aggregate that is given in words, with its expressions quoted."""
        with contextlib.suppress(ArgumentError):
            _, columns, _ = parse_call(name, text)
            if all(column in self._events.columns or column.isidentifier() for column in columns):
                return text  # the operator will say which columns do not exist
        try:
            return self.of(sql.expr(str(text)))
        except ParseException:
            parse_call(name, text)  # says more if the function does not exist
            raise ArgumentError("Spark cannot parse this", where=f"result {name!r}", got=text) from None

    def of(self, aggregate: Column) -> str:
        call = read_call(self._spark, aggregate)
        if call is None or call.function not in RESULTS:
            _refuse("unskew has no such aggregate", aggregate)
        make = RESULTS[call.function]
        if call.clause:
            _refuse(f"unskew has no aggregates with {call.clause}", aggregate)
        columns, options = call.arguments[: make.most_columns], call.arguments[make.most_columns :]
        if make is Count and len(call.arguments) == 1 and (columns[0].star or columns[0].literal is not None):
            return "count"
        if not max(make.least_columns, 1) <= len(columns) or len(options) > make.most_options:
            _refuse(f"{call.function} has another number of arguments in unskew", aggregate)
        if any(option.literal is None for option in options):
            _refuse("the option behind the columns must be a literal", aggregate)
        words = [*(self._word(each.column) for each in columns), *(str(each.literal) for each in options)]
        return f"{call.function}({', '.join(words)})"

    def _word(self, argument: Column) -> str:
        """Return a column of the stream by its name, or an expression in backticks."""
        read = read_selected(self._events, argument)
        if read is None:
            _refuse("an aggregate in unskew is over one value of each row", argument)
        text, name = read
        if name is not None and name in self._events.columns and name.isidentifier():
            return name
        if expression_column(text) in self._events.columns:
            raise ColumnError("a column of the stream has the name that this expression needs", got=text)
        known = self._expressions.setdefault(text, argument)
        if not are_equal(self._events, known, argument):  # two functions of one name
            raise ArgumentError("two different expressions have the same text", got=text, hint=NAME_IT)
        return quoted(text)


def _refuse(what: str, aggregate: Column) -> NoReturn:
    shown = str(aggregate)[len("Column<'") : -len("'>")]
    raise ArgumentError(what, got=shown, hint=f"the aggregates are {function_names()}, over columns and expressions")


def numeric_columns(events: DataFrame) -> list[str]:
    """Return what Spark's ``groupBy(...).sum()`` adds up."""
    return [field.name for field in events.schema if isinstance(field.dataType, NumericType)]


def from_dict(given: Mapping[str, str]) -> list[Column]:
    """Return the aggregates of ``agg({"amount": "sum"})``."""
    functions = {name: IN_A_DICT.get(function.lower(), function.lower()) for name, function in given.items()}
    return [
        sql.call_function(function, sql.lit(1) if (name, function) == ("*", "count") else sql.col(name))
        for name, function in functions.items()
    ]


def spark_types(native: StructType, ours: StructType) -> StructType:
    """Return our columns with Spark's names; `ColumnError` if a type is not Spark's."""
    for theirs, own in zip(native, ours, strict=True):
        if theirs.dataType.simpleString() != own.dataType.simpleString():
            raise ColumnError(
                f"Spark's result has the type {theirs.dataType.simpleString()}, which unskew cannot give here",
                where=f"column {theirs.name!r}",
                got=own.dataType.simpleString(),
                hint="cast the column that is aggregated first",
            )
    return StructType([StructField(theirs.name, own.dataType) for theirs, own in zip(native, ours, strict=True)])
