"""What unskew needs of Spark beyond its public API; one function each, with a contract test each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, GroupedData, SparkSession


def java_and_hadoop(spark: SparkSession) -> tuple[Any, Any]:
    """Return the driver's JVM, as Py4J shows it, and Hadoop's settings for the session."""
    session: Any = spark
    return session._jvm, session._jsparkSession.sessionState().newHadoopConf()


@dataclass(frozen=True)
class Argument:
    """An argument of a call."""

    column: Column
    literal: str | None  # text of a literal that is not null
    star: bool  # whether it is ``*``


@dataclass(frozen=True)
class Call:
    """A call of a function, without its alias."""

    function: str  # in lower case
    arguments: tuple[Argument, ...]
    clause: str  # such as "DISTINCT", or empty


def read_call(spark: SparkSession, column: Column) -> Call | None:
    """Return the call that a column is, from Spark's own tree; None for other columns, `ParseException` for bad SQL."""
    session: Any = spark
    expression = session._jsparkSession.expression(column._jc)
    if _kind(expression) == "Alias":
        expression = expression.child()
    if _kind(expression) != "UnresolvedFunction" or expression.nameParts().length() != 1:
        return None
    utilities = session._jvm.org.apache.spark.sql.classic.ExpressionUtils
    arguments = []
    for at in range(expression.arguments().length()):
        given = expression.arguments().apply(at)
        literal = _kind(given) == "Literal" and not given.nullable()
        star = _kind(given) == "UnresolvedStar" and given.target().isEmpty()
        arguments.append(Argument(Column(utilities.column(given)), given.toString() if literal else None, star))
    clauses = {
        "DISTINCT": expression.isDistinct(),
        "FILTER": expression.filter().isDefined(),
        "IGNORE NULLS": expression.ignoreNulls().isDefined(),
        "WITHIN GROUP": expression.orderingWithinGroup().length() > 0,
    }
    return Call(
        expression.nameParts().head().lower(),
        tuple(arguments),
        " and ".join(clause for clause, said in clauses.items() if said),
    )


def read_selected(rows: DataFrame, column: Column) -> tuple[str, str | None] | None:
    """Return the SQL of a column as Spark resolves it on some rows, and its name if it is one of their columns.

    None if it does not give one value for each row: a star, an aggregate, a window function or a generator.
    """
    frames: list[Any] = [rows, rows.select(column)]
    below, selected = (frame._jdf.queryExecution().analyzed() for frame in frames)
    if _kind(selected) != "Project" or selected.projectList().length() != 1 or not selected.child().equals(below):
        return None
    expression = selected.projectList().head()
    if _kind(expression) == "AttributeReference":
        return expression.sql(), expression.name()
    return expression.child().sql(), None


def read_grouped(grouped: GroupedData) -> tuple[DataFrame, tuple[str, ...]]:
    """Return the rows behind Spark's ``groupBy``, and the names of the columns that it groups by."""
    inner: Any = grouped
    return inner._df, tuple(grouped.count().columns[:-1])


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
