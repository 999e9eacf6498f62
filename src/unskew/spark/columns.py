"""Aggregates and grouping columns as Spark spells them, read into what operators understand."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import NoReturn

from pyspark.errors import ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import NumericType, StructField, StructType

from unskew.errors import ArgumentError, ColumnError
from unskew.operators.aggregate import RESULTS, expression_column, function_names, parse_call
from unskew.operators.aggregate_functions import Count
from unskew.operators.presum import quoted
from unskew.spark.internals import read_call, read_selected

IN_A_DICT = {"average": "avg", "mean": "avg", "std": "stddev", "size": "count"}
"""Names that Spark takes in ``agg({"amount": "mean"})``, and the functions that it means."""

FIRST_NAME_IT = "add it to the stream with withColumn, and name the new column here"


class Aggregates:
    """Reads aggregates of a stream into calls in words, and collects the expressions that they are over.

    Spark evaluates an expression in the select that hands the rows over. So an operator sees a column for each distinct
    expression, named after its text (`expression_column`). Whatever cannot be read for certain is refused.
    """

    def __init__(self, events: DataFrame) -> None:
        self._events, self._spark = events, events.sparkSession
        self._expressions: dict[str, Column] = {}

    @property
    def rows(self) -> DataFrame:
        """The stream, with a column more for every expression."""
        if not self._expressions:
            return self._events
        added = [column.alias(expression_column(text)) for text, column in self._expressions.items()]
        return self._events.select("*", *added)

    def in_words(self, name: str, text: str) -> str:
        """Return an aggregate that is given in words with its expressions quoted."""
        with contextlib.suppress(ArgumentError):
            _, columns, _ = parse_call(name, text)
            if all(column in self._events.columns or column.isidentifier() for column in columns):
                return text  # the operator tells which columns do not exist
        try:
            return self.of(sql.expr(text))
        except ParseException:
            parse_call(name, text)  # which says more, if the function is not there
            raise ArgumentError("Spark cannot parse this", where=f"result {name!r}", got=text) from None

    def of(self, aggregate: Column) -> str:
        """Return an aggregate in words."""
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
        if not self._events.select(known).sameSemantics(self._events.select(argument)):  # two functions of one name
            raise ArgumentError("two different expressions read the same", got=text, hint=FIRST_NAME_IT)
        return quoted(text)


def _refuse(what: str, aggregate: Column) -> NoReturn:
    shown = str(aggregate)[len("Column<'") : -len("'>")]
    raise ArgumentError(what, got=shown, hint=f"the aggregates are {function_names()}, over columns and expressions")


def numeric_columns(events: DataFrame) -> list[str]:
    """Return what Spark's ``groupBy(...).sum()`` adds up."""
    return [field.name for field in events.schema if isinstance(field.dataType, NumericType)]


def from_dict(given: Mapping[str, str]) -> list[Column]:
    """Return the aggregates of ``agg({"amount": "sum"})``."""
    columns = []
    for name, function in given.items():
        called = IN_A_DICT.get(function.lower(), function.lower())
        argument = sql.lit(1) if name == "*" and called == "count" else sql.col(name)
        columns.append(sql.call_function(called, argument))
    return columns


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
