"""Fang's planners: one owner per key, a bounded routing table, little state moved."""

from __future__ import annotations

from unskew.planners.fang.llfd import Llfd
from unskew.planners.fang.min_mig import MinMig
from unskew.planners.fang.min_table import MinTable
from unskew.planners.fang.mixed import Mixed
from unskew.planners.fang.mixed_bf import MixedBf
from unskew.planners.fang.records import Records
from unskew.planners.fang.simple import Simple

__all__ = ["Llfd", "MinMig", "MinTable", "Mixed", "MixedBf", "Records", "Simple"]
