"""What unskew needs of Spark beyond its public API; one function each, with a contract test each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession


def java_and_hadoop(spark: SparkSession) -> tuple[Any, Any]:
    """Return the driver's JVM, as Py4J shows it, and Hadoop's settings with those of the session."""
    session: Any = spark
    return session._jvm, session._jsparkSession.sessionState().newHadoopConf()


@dataclass(frozen=True)
class Argument:
    """An argument of a call.

    Parameters
    ----------
    column
        The argument itself.
    literal
        The text of a literal that is not null; None for anything else.
    star
        Whether it is ``*``.
    """

    column: Column
    literal: str | None
    star: bool


@dataclass(frozen=True)
class Call:
    """A call of a function, without the alias.

    Parameters
    ----------
    function
        Its name, in small letters.
    arguments
        What stands in the parentheses.
    clause
        What else is said, such as ``"DISTINCT"``; empty if nothing is.
    """

    function: str
    arguments: tuple[Argument, ...]
    clause: str


def read_call(spark: SparkSession, column: Column) -> Call | None:
    """Return the call that a column is, None if it is anything else; raises `ParseException` for bad SQL.

    The call is taken from Spark's own tree, so nothing has to be parsed from a text that may be ambiguous.
    """
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
    """Return the SQL of a column of some rows as Spark resolves it, and its name if it is one of their own columns.

    None if it is not one expression with a value for each row: a star, an aggregate, a window function, a generator.
    """
    frames: list[Any] = [rows, rows.select(column)]
    below, selected = (frame._jdf.queryExecution().analyzed() for frame in frames)
    if _kind(selected) != "Project" or selected.projectList().length() != 1 or not selected.child().equals(below):
        return None
    expression = selected.projectList().head()
    if _kind(expression) == "AttributeReference":
        return expression.sql(), expression.name()
    return expression.child().sql(), None


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
