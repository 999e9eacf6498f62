"""A check of the sessions that users bring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import SparkSession

from unskew.errors import SessionError
from unskew.packages import needed_packages

SPARK_VERSION = "4.3"
ON_WORKERS = ("pyspark", "pyarrow", "pandas", "numpy", "numba", "protobuf")  # what the Python workers import

When = Literal["now", "at start", "before start"]


@dataclass(frozen=True)
class Problem:
    """One thing that a session lacks.

    Parameters
    ----------
    what
        The problem, one clause.
    remedy
        The line that puts it right.
    when
        ``"now"``: a line for the running session; ``"at start"``: the session must be built anew with it;
        ``"before start"``: something has to be installed.
    """

    what: str
    remedy: str
    when: When


def check_session(spark: Any) -> None:
    """Raise `SessionError` if `spark` lacks something that unskew needs; it names everything, with the lines to add.

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
    headings = {
        "before start": "in the shell, then start Python anew:",
        "at start": "stop the session and build it with:",
        "now": "before the query is started:",
    }
    advice = [
        "\n".join([heading, *(f"    {problem.remedy}" for problem in found if problem.when == when)])
        for when, heading in headings.items()
        if any(problem.when == when for problem in found)
    ]
    raise SessionError(
        f"the Spark session does not fit: {'; '.join(problem.what for problem in found)}",
        hint="\n".join([*advice, "unskew.spark.session() gives a session that has all this"]),
    )


def problems(spark: Any) -> list[Problem]:
    """Return all that `spark` lacks, an empty list when it fits; `SessionError` if it is no usable session at all."""
    _refuse_what_is_no_session(spark)
    return [*_version_problems(spark), *_package_problems()]


def _refuse_what_is_no_session(spark: Any) -> None:
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise SessionError(
            "Spark Connect is not supported yet: unskew talks to the driver's JVM, which Connect hides",
            hint="unset SPARK_REMOTE and SPARK_CONNECT_MODE, and build the session with .master(...), not .remote(...)",
        )
    if not isinstance(spark, SparkSession):
        raise SessionError(
            "this is not a Spark session", got=type(spark).__name__, hint="unskew.spark.session() gives one"
        )
    if spark.sparkContext._jsc is None:
        raise SessionError("the Spark session is stopped", hint="build it anew")


def _version_problems(spark: Any) -> list[Problem]:
    if spark.version.startswith(f"{SPARK_VERSION}."):
        return []
    what = f"Spark is {spark.version}, not {SPARK_VERSION}"
    return [Problem(what, f"Spark {SPARK_VERSION} (is SPARK_HOME set to another one?)", "at start")]


def _package_problems() -> list[Problem]:
    wrong = [package for package in needed_packages() if package.name in ON_WORKERS and not package.fits]
    return [Problem(package.problem, package.remedy, "before start") for package in wrong]
