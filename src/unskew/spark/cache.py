"""The cache of channel state on this executor."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from unskew.operators import LocalCache


def executor_cache(budget_bytes: int) -> LocalCache:
    """Return the cache that all Python workers of this machine and user share.

    It lies in Spark's local directory where there is one, else in the system's temporary directory.
    """
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    return LocalCache(Path(local) / f"unskew-state-{os.getuid()}", budget_bytes)
