"""A check of the sessions that users bring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from unskew.errors import ArgumentError, SessionError
from unskew.packages import needed_packages
from unskew.spark.internals import is_connect, is_stopped
from unskew.versions import NEWEST, OLDEST, spoken

ON_WORKERS = ("pyspark", "pyarrow", "pandas", "numpy", "numba", "protobuf")  # what the Python workers import
INSTALL = "in the shell, then start Python anew:"
BUILD = "stop the session and build it with:"


@dataclass(frozen=True)
class Problem:
    """One thing that a session lacks, the line that puts it right, and where that line belongs."""

    what: str
    remedy: str
    heading: str


def check_session(spark: Any) -> None:
    """Raise `SessionError` if `spark` lacks something that unskew needs. It names everything, with the lines to add.

    Costs a few milliseconds, runs no job and changes nothing.

    Examples
    --------
    >>> check_session("local[2]")
    Traceback (most recent call last):
    unskew.errors.SessionError: this is not a Spark session, got 'str'. Hint: unskew.spark.session() gives one.
    """
    found = problems(spark)
    if not found:
        return
    advice = [
        "\n".join([heading, *(f"    {problem.remedy}" for problem in found if problem.heading == heading)])
        for heading in (INSTALL, BUILD)
        if any(problem.heading == heading for problem in found)
    ]
    raise SessionError(
        f"the Spark session does not fit: {'; '.join(problem.what for problem in found)}",
        hint="\n".join([*advice, "unskew.spark.session() gives a session that has all this"]),
    )


def problems(spark: Any) -> list[Problem]:
    """Return all that `spark` lacks; `SessionError` if it is not a usable session at all."""
    if not isinstance(spark, SparkSession) and not is_connect(spark):
        raise SessionError(
            "this is not a Spark session", got=type(spark).__name__, hint="unskew.spark.session() gives one"
        )
    if is_stopped(spark):
        raise SessionError("the Spark session is stopped", hint="build a new one")
    found = []
    if not OLDEST <= tuple(map(int, spark.version.split(".")[:2])) <= NEWEST:
        fitting = f"{spoken(OLDEST)} to {spoken(NEWEST)}"
        what = f"Spark is {spark.version}, not {fitting}"
        found.append(Problem(what, f"Spark {fitting} (is SPARK_HOME set to another one?)", BUILD))
    wrong = [package for package in needed_packages() if package.name in ON_WORKERS and not package.fits]
    return [*found, *(Problem(package.problem, package.remedy, INSTALL) for package in wrong)]


def require_frame(given: object, where: str) -> None:
    """Refuse what is not a DataFrame."""
    if not isinstance(given, DataFrame):
        raise ArgumentError(
            "this is not a Spark DataFrame", where=where, got=type(given).__name__, hint="spark.createDataFrame(...)"
        )
