"""Planners: which channel owns which key, one algorithm per file."""

from __future__ import annotations

from unskew.planners.base import PLANNERS, Assignment, Plan, Planner, planner
from unskew.planners.memory import Memory
from unskew.planners.problem import Problem
from unskew.planners.report import Report

__all__ = ["PLANNERS", "Assignment", "Memory", "Plan", "Planner", "Problem", "Report", "planner"]
