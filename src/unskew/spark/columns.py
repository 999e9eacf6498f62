"""Grouping columns and aggregates as Spark spells them, read into what operators understand."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, cast

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import NumericType, StructField, StructType

from unskew.errors import ArgumentError, ColumnError, did_you_mean
from unskew.hashing import check_key_type
from unskew.hashing.key_types import check_collation
from unskew.operators import Operator
from unskew.operators.aggregate import RESULTS, expression_column, function_names, parse_call
from unskew.operators.aggregate_functions import Count
from unskew.operators.presum import quoted
from unskew.operators.session_aggregate import SessionAggregate
from unskew.operators.window_aggregate import WindowAggregate
from unskew.spark.internals import NAME_IT, Call, are_equal, plain_column, read_call, read_selected

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


@dataclass(frozen=True, eq=False)
class Grouping:
    """Rows and what they are grouped by; a key that is an expression is a column of its own, which `hidden` names."""

    rows: DataFrame
    key: tuple[str, ...]
    hidden: tuple[str, ...]
    span: Span | None
    given: tuple[str | Column, ...]  # as the user spells it


def grouping(events: DataFrame, given: Sequence[str | Column | int], windows: bool = True) -> Grouping:
    """Return what `events.groupBy` is given, with a column for every key.

    A window of a stream comes apart from the keys, unless `windows` is false.
    """
    windows = windows and events.isStreaming
    keys = _Keys(events)
    span, spelled = None, []
    for what in given:
        each = keys.at(what) if isinstance(what, int) and not isinstance(what, bool) else what
        if not isinstance(each, (str, Column)):
            raise ArgumentError(
                "a key must be the name of a column, or a column", got=each, hint='"user" or F.col("user")'
            )
        spelled.append(each)
        call = _window(events, each) if isinstance(each, Column) and windows else None
        if call is None:
            keys.add(each)
        elif span is None:
            span = _span(events, cast(Column, each), call, len(keys.names))
        else:
            raise ArgumentError("only one window is possible", got=str(each), hint="leave one out")
    if span is not None and span.place == len(keys.names):
        span = replace(span, place=None)
    return Grouping(keys.rows, tuple(keys.names), tuple(keys.made), span, tuple(spelled))


def _window(events: DataFrame, column: Column) -> Call | None:
    """Return a window of event time, of which operators have their own; None for other columns."""
    try:
        call = read_call(events.sparkSession, column)
    except ArgumentError:  # text that only the server of Spark Connect can parse
        return None
    return call if call is not None and call.function in ("window", "session_window") else None


class _Keys:
    """Collects the key columns of some rows."""

    def __init__(self, events: DataFrame) -> None:
        self._events, self._columns = events, events.columns
        self.names: list[str] = []
        self.made: dict[str, Column] = {}

    @property
    def rows(self) -> DataFrame:
        """The rows with a column for every key."""
        added = [column.alias(name) for name, column in self.made.items()]
        return self._events.select("*", *added) if added else self._events

    def at(self, ordinal: int) -> Column:
        """Return a column by its number, from 1 on, as ``groupBy(1)`` does."""
        if not 1 <= ordinal <= len(self._columns):
            hint = f"a number from 1 to {len(self._columns)}, or a name"
            raise ColumnError("there is no column of that number", where="the key", got=ordinal, hint=hint)
        return self._events[ordinal - 1]

    def add(self, given: str | Column) -> None:
        try:
            column = sql.col(given) if isinstance(given, str) else given
            (field,) = self._events.select(column).schema
        except AnalysisException as error:
            if not isinstance(given, str) or error.getCondition() == "AMBIGUOUS_REFERENCE":
                raise
            hint = f"write {quoted(given)}" if given in self._columns else did_you_mean(given, self._columns)
            raise ColumnError("there is no column of that name", where="the key", got=given, hint=hint) from error
        except ValueError:
            raise ArgumentError("a key must be one column", got=given, hint='"user" or F.col("user")') from None
        if isinstance(given, str) and self._columns.count(given) == 1 and given not in self.names:
            name = given
        else:
            name = self._made(field.name, column)
        self.names.append(name)
        check = check_key_type if self._events.isStreaming else check_collation
        check(name, field.dataType.simpleString())

    def _made(self, spelled: str, column: Column) -> str:
        """Add a column; it has the name that Spark gives it, as far as no other has it and Python can read it."""
        plain = plain_column(self._events, column)
        if plain is not None and self._columns.count(plain) == 1 and plain not in self.names:
            return plain
        name = spelled.replace(".", "%2E").replace("`", "'")
        taken = {each.lower() for each in (*self._columns, *self.made)}
        while name.lower() in taken:
            name += "'"
        self.made[name] = column
        return name


def _span(events: DataFrame, column: Column, call: Call, place: int) -> Span:
    time, *rest = call.arguments
    durations = [each.literal for each in rest if each.literal is not None]
    if call.clause or not durations or len(durations) < len(rest):
        raise ArgumentError(
            "a window needs a column of times and fixed durations",
            got=str(column),
            hint='F.window("ts", "5 minutes") or F.session_window("ts", "5 minutes")',
        )
    read = read_selected(events, time.column)
    if read is None or read[1] is None:
        raise ArgumentError("a key must be a column of the stream", got=str(column), hint=NAME_IT)
    on, size = read[1], durations[0]
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
