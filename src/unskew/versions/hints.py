"""Type hints of a user's function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql.pandas import typehints
from pyspark.util import PythonEvalType


def takes_iterator(method: str, function: Callable[..., Any]) -> bool:
    """Tell whether Spark's ``applyInPandas`` or ``applyInArrow`` reads from type hints that a function takes pieces."""
    kind = {"applyInPandas": "pandas", "applyInArrow": "arrow"}[method]
    infer = getattr(typehints, f"infer_group_{kind}_eval_type_from_func", None)
    if infer is None:  # before Spark 4.1 functions take whole groups
        return False
    try:
        return bool(infer(function) == getattr(PythonEvalType, f"SQL_GROUPED_MAP_{kind.upper()}_ITER_UDF"))
    except Exception:  # Spark, too, warns and goes on
        return False
