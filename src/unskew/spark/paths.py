"""Paths as Spark completes them."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from unskew.errors import ArgumentError

DEFAULT_FILESYSTEM = ("fs.defaultFS", "spark.hadoop.fs.defaultFS")


def qualified(spark: SparkSession, given: str | os.PathLike[str]) -> str:
    """Return a path with its scheme, completed as Spark would complete it.

    A path without a scheme belongs to the default filesystem, which the session's settings name, or a file of Hadoop's
    that Python does not see. In that case we ask Spark for a path that does not exist: its error spells the full path.
    """
    path = str(given) if isinstance(given, os.PathLike) else given
    if not isinstance(path, str) or not path:
        raise ArgumentError("this is not a path", got=given, hint='give it as text: "/data/checkpoint"')
    scheme, colon, rest = path.rstrip("/").partition(":")
    if colon and "/" not in scheme:
        return f"file:/{rest.lstrip('/')}" if scheme == "file" else path.rstrip("/")
    default = next((found for name in DEFAULT_FILESYSTEM if (found := spark.conf.get(name, ""))), "")
    if default and path.startswith("/"):
        return qualified(spark, f"{default.rstrip('/')}{path}")
    nothing = f"/_unskew-{uuid4().hex}"
    try:
        rows = spark.read.schema("value string").option("ignoreMissingFiles", "false").text(path.rstrip("/") + nothing)
        rows.isLocal()  # Spark Connect looks only when it is asked something
    except AnalysisException as error:
        spelled = (error.getMessageParameters() or {}).get("path", "")
        if error.getCondition() != "PATH_NOT_FOUND" or not spelled.endswith(nothing):
            raise
        return spelled.removesuffix(nothing)
    return f"file:{Path(path).absolute()}"
