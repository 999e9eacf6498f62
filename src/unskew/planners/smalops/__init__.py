"""SMALOPS' planner: hot keys leave overloaded channels, the lighter ones first, for where they fit best.

Bhattacharya and Wood, "Load Balancing and Generalized Split State Reconciliation in Event Driven Systems".
"""

from __future__ import annotations

from unskew.planners.smalops.best_fit import RULES, worth_moving
from unskew.planners.smalops.hot_keys import HOT_BY, HotKeyWindow, hot_positions
from unskew.planners.smalops.planner import Smalops

__all__ = ["HOT_BY", "RULES", "HotKeyWindow", "Smalops", "hot_positions", "worth_moving"]
