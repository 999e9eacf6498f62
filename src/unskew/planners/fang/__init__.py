"""Fang's planners: one owner per key, a bounded routing table, little state moved.

Fang et al., "Parallel Stream Processing Against Workload Skewness and Variance".
"""

from __future__ import annotations

from unskew.planners.fang.mixed import Mixed, MixedBf
from unskew.planners.fang.one_trial import Llfd, MinMig, MinTable
from unskew.planners.fang.records import Records
from unskew.planners.fang.simple import Simple

__all__ = ["Llfd", "MinMig", "MinTable", "Mixed", "MixedBf", "Records", "Simple"]
