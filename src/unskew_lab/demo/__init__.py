"""The demonstration: one skewed stream under Spark's hash and under unskew, side by side on an embedded Spark."""

from __future__ import annotations

from unskew_lab.demo.batch import Batch, HotKey
from unskew_lab.demo.race import Figures, Race
from unskew_lab.demo.settings import Settings

__all__ = ["Batch", "Figures", "HotKey", "Race", "Settings"]
