"""The demonstration: what skew does to a stateful stream, live on an embedded Spark."""

from __future__ import annotations

from unskew.demo.batch import Batch, HotKey, Summary
from unskew.demo.settings import Settings

__all__ = ["Batch", "HotKey", "Settings", "Summary"]
