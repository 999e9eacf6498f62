"""A planner for tests that returns a given table."""

from __future__ import annotations

from dataclasses import dataclass

from unskew.load.statistics import Statistics
from unskew.planners.base import Assignment, Plan, Planner
from unskew.planners.memory import Memory
from unskew.planners.problem import Problem
from unskew.routing.table import RoutingTable


@dataclass(frozen=True)
class Told(Planner):
    """Returns one table, whatever the load."""

    target: RoutingTable
    tolerance: float = 0.0

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        return Assignment(self.target.lookup(problem.hashes), memory=memory)

    def plan(
        self, statistics: Statistics, table: RoutingTable, *, channels: int | None = None, memory: Memory | None = None
    ) -> Plan:
        figures = super().plan(statistics, table, channels=channels, memory=memory).report
        return Plan(self.target, table.moves_to(self.target), figures, memory or Memory())
