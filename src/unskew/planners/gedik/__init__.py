"""Gedik's partitioning functions: a table of hot keys over a consistent hash, built in three ways."""

from __future__ import annotations

from unskew.planners.gedik.readj import Readj
from unskew.planners.gedik.redist import Redist
from unskew.planners.gedik.scan import Scan

__all__ = ["Readj", "Redist", "Scan"]
