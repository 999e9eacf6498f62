"""What unskew needs of Spark beyond its public API; one function each, with a contract test each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, GroupedData, SparkSession, functions

from unskew.errors import ArgumentError
from unskew.operators.presum import quoted
from unskew.spark.plans import plan_nodes

NAME_IT = "add it to the stream with withColumn, and name the new column here"

_CALL_IN_SQL = re.compile(r"\s*(?P<function>\w+)\s*\(\s*(?P<distinct>distinct\s)?(?P<arguments>.*)\)\s*", re.I | re.S)
_SQL_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|.""", re.S)
_NUMBER_IN_SQL = re.compile(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?", re.I)
_NUMBER_OF_COLUMN = re.compile(r"#\d+L?")
_OPENING, _CLOSING = "([", ")]"


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
    ignored = expression.ignoreNulls()  # a boolean before Spark 4.2
    clauses = {
        "DISTINCT": expression.isDistinct(),
        "FILTER": expression.filter().isDefined(),
        "IGNORE NULLS": ignored if isinstance(ignored, bool) else ignored.isDefined(),
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


def are_equal(rows: DataFrame, one: Column, other: Column) -> bool:
    """Tell whether two columns have the same values on some rows, as far as Spark can tell for certain."""
    columns: tuple[Any, Any] = one, other
    pair = rows.select(one), rows.select(other)
    if pair[0].sameSemantics(pair[1]):
        return True
    # under Spark Connect a watermark has another number in every plan
    plain = is_connect(rows) and not any(_calls_python(column._expr) for column in columns)
    return plain and _as_resolved(pair[0]) == _as_resolved(pair[1])


def plain_column(rows: DataFrame, column: Column) -> str | None:
    """Return the name, as the rows have it, of the column of theirs that another one stands for; None if none."""
    of_client: Any = column
    if is_connect(column):
        expression = of_client._expr
        if _name_of(expression) != "ColumnReference":
            return None
        spelled = expression._unparsed_identifier.replace("`", "").lower()
        named = [name for name in rows.columns if name.lower() == spelled]
        return named[0] if len(named) == 1 else None
    frames: list[Any] = [rows, rows.select(column)]
    below, selected = (frame._jdf.queryExecution().analyzed() for frame in frames)
    if _kind(selected) != "Project" or _kind(selected.projectList().head()) != "AttributeReference":
        return None
    wanted, own = selected.projectList().head().exprId(), below.output()
    return next((own.apply(at).name() for at in range(own.length()) if own.apply(at).exprId().equals(wanted)), None)


def read_grouped(grouped: GroupedData) -> tuple[DataFrame, tuple[str, ...]]:
    """Return the rows behind Spark's ``groupBy``, and the names of the columns that it groups by."""
    inner: Any = grouped
    return inner._df, tuple(grouped.count().columns[:-1])


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _read_connect_call(column: Any) -> Call | None:
    """Read a call from the tree that the client of Spark Connect builds, or from text that is one call and no more."""
    expression = column._expr
    if _name_of(expression) == "ColumnAlias":
        expression = expression._child
    if _name_of(expression) == "SQLExpression":
        return _read_call_in_sql(expression._expr)
    if _name_of(expression) != "UnresolvedFunction":
        return None
    arguments = []
    for given in expression._args:
        literal = given._value if _name_of(given) == "LiteralExpression" else None
        text = str(literal).lower() if isinstance(literal, bool) else None if literal is None else str(literal)
        star = _name_of(given) == "UnresolvedStar" and given._unparsed_target is None
        arguments.append(Argument(type(column)(given), text, star))
    return Call(expression._name.lower(), tuple(arguments), "DISTINCT" if expression._is_distinct else "")


def _read_call_in_sql(text: str) -> Call:
    """Read one call from SQL text; only the server parses the arguments."""
    found = _CALL_IN_SQL.fullmatch(text)
    arguments = None if found is None else _arguments_in_sql(found["arguments"])
    if found is None or arguments is None:
        what = "on Spark Connect, SQL text must be one call of an aggregate"
        raise ArgumentError(what, got=text, hint='"sum(amount * 2)", or F.sum(F.col("amount") * 2)')
    read = [Argument(functions.expr(each), _literal_in_sql(each), each == "*") for each in arguments]
    return Call(found["function"].lower(), tuple(read), "DISTINCT" if found["distinct"] else "")


def _arguments_in_sql(text: str) -> list[str] | None:
    """Split arguments at the commas that stand outside of quotes and brackets; None if brackets do not match."""
    parts, depth = [""], 0
    for token in _SQL_TOKEN.findall(text):
        depth += (token in _OPENING) - (token in _CLOSING)
        if depth < 0:
            return None
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return None if depth else [part.strip() for part in parts if part.strip()]


def _literal_in_sql(text: str) -> str | None:
    if _NUMBER_IN_SQL.fullmatch(text) or text.lower() in ("true", "false"):
        return text.lower()
    whole = _SQL_TOKEN.fullmatch(text)
    return text[1:-1] if whole is not None and text[0] in "'\"" else None


def _read_connect_column(rows: DataFrame, column: Any) -> tuple[str, str | None] | None:
    """Do as `read_selected` does, by what the server says; the SQL of an expression is the name that Spark gives it."""
    expression = column._expr
    while _name_of(expression) == "ColumnAlias":
        expression = expression._child
    column = type(column)(expression)
    selected = rows.select(column)
    below, nodes = plan_nodes(rows), plan_nodes(selected)
    if len(selected.columns) != 1 or len(nodes) != len(below) + 1 or nodes[0].name != "Project":
        return None
    name = selected.columns[0]
    for own in rows.columns:
        if own.lower() == name.lower() and _as_resolved(selected) == _as_resolved(rows.select(quoted(own))):
            return quoted(own), own
    return name, None


def _calls_python(expression: Any) -> bool:
    return "UserDefined" in _name_of(expression) or any(map(_calls_python, expression.children))


def _as_resolved(rows: DataFrame) -> tuple[str, str]:
    """Return the topmost node of a plan without its numbers, and its types."""
    return _NUMBER_OF_COLUMN.sub("", plan_nodes(rows)[0].text), rows.schema.simpleString()


def _name_of(expression: object) -> str:
    return type(expression).__name__
