"""The runtime on Structured Streaming: the only folder, with the workloads' source, that imports pyspark."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unskew.spark.check import check_session
    from unskew.spark.local_session import session
    from unskew.workloads.spark_source import register as register_workloads

__all__ = ["check_session", "register_workloads", "session"]

# imported at first use: Python workers import modules of this folder and need none of these
_HOMES = {
    "check_session": ("unskew.spark.check", "check_session"),
    "register_workloads": ("unskew.workloads.spark_source", "register"),
    "session": ("unskew.spark.local_session", "session"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'unskew.spark' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)
