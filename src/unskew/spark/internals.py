"""What unskew needs of Spark beyond its public API; one function each, with a contract test each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, GroupedData, SparkSession

from unskew.errors import ArgumentError
from unskew.operators.presum import quoted

NAME_IT = "add it to the stream with withColumn, and name the new column here"


def is_connect(of_spark: object) -> bool:
    """Tell whether a session, a DataFrame or a column belongs to Spark Connect."""
    return type(of_spark).__module__.startswith("pyspark.sql.connect")


def is_stopped(spark: SparkSession) -> bool:
    """Tell whether a classic session has been stopped; a session of Spark Connect counts as running."""
    session: Any = spark
    return not is_connect(spark) and session.sparkContext._jsc is None


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
    if is_connect(column):
        return _read_connect_call(column)
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
    if is_connect(column):
        return _read_connect_column(rows, column)
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


def _read_connect_call(column: Any) -> Call | None:
    """Read a call from the tree that the client of Spark Connect builds; SQL text is parsed by the server alone."""
    expression = column._expr
    if _name_of(expression) == "ColumnAlias":
        expression = expression._child
    if _name_of(expression) == "SQLExpression":
        raise ArgumentError(
            "Spark Connect does not parse SQL before a query runs", got=str(column), hint='F.sum("amount")'
        )
    if _name_of(expression) != "UnresolvedFunction":
        return None
    arguments = []
    for given in expression._args:
        literal = given._value if _name_of(given) == "LiteralExpression" else None
        text = str(literal).lower() if isinstance(literal, bool) else None if literal is None else str(literal)
        star = _name_of(given) == "UnresolvedStar" and given._unparsed_target is None
        arguments.append(Argument(type(column)(given), text, star))
    return Call(expression._name.lower(), tuple(arguments), "DISTINCT" if expression._is_distinct else "")


def _read_connect_column(rows: DataFrame, column: Any) -> tuple[str, str]:
    """Return the name of a column of the rows. Refuse expressions, which the client cannot tell apart for certain."""
    expression = column._expr
    if _name_of(expression) == "ColumnReference":
        name = rows.select(column).columns[0]
        if expression._unparsed_identifier.replace("`", "").lower() == name.lower():
            return quoted(name), name
    raise ArgumentError("on Spark Connect this must be a column of the stream", got=str(column), hint=NAME_IT)


def _name_of(expression: object) -> str:
    return type(expression).__name__
