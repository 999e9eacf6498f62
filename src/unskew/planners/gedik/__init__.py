"""Gedik's partitioning functions: a table of hot keys over a consistent hash, built in three ways.

Gedik, "Partitioning functions for stateful data parallelism in stream processing".
"""

from __future__ import annotations

from unskew.planners.gedik.placing import Redist, Scan
from unskew.planners.gedik.readj import Readj

__all__ = ["Readj", "Redist", "Scan"]
