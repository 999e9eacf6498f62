"""SMALOPS' planner: hot keys leave overloaded channels, the lighter ones first, for where they fit best."""

from __future__ import annotations

from unskew.planners.smalops.app_state import RULES, worth_moving
from unskew.planners.smalops.hot_keys import HOT_BY, hot_positions
from unskew.planners.smalops.planner import Smalops
from unskew.planners.smalops.window import HotKeyWindow

__all__ = ["HOT_BY", "RULES", "HotKeyWindow", "Smalops", "hot_positions", "worth_moving"]
