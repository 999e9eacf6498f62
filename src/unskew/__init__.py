"""Keep stateful stream processing on Spark balanced when keys are skewed and drift."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from unskew.kernel_cache import ensure_kernel_cache

if TYPE_CHECKING:
    from unskew.advice.sources import advise
    from unskew.planners import planner
    from unskew.spark.balance import balance
    from unskew.spark.committed import read_committed
    from unskew.spark.inputs import tagged
    from unskew.spark.native_state import state_of
    from unskew.spark.per_key import KEEP
    from unskew.spark.read_state import read_state

__all__ = ["KEEP", "__version__", "advise", "balance", "planner", "read_committed", "read_state", "state_of", "tagged"]

__version__ = "0.2.0"

# imported at first use, so that the command line starts fast and planning does not need Spark
_HOMES = {
    "KEEP": "unskew.spark.per_key",
    "advise": "unskew.advice.sources",
    "balance": "unskew.spark.balance",
    "planner": "unskew.planners",
    "read_committed": "unskew.spark.committed",
    "read_state": "unskew.spark.read_state",
    "state_of": "unskew.spark.native_state",
    "tagged": "unskew.spark.inputs",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'unskew' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


ensure_kernel_cache()
