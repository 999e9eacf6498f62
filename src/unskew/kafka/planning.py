"""When keys move, and where to: a planner gets the counts of a window, and its plan becomes markers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from unskew.errors import ArgumentError
from unskew.kafka.costs import GroupUse
from unskew.kafka.decision import GatewayDecision, hashes_of
from unskew.load.channels import ChannelUse
from unskew.load.statistics import Statistics
from unskew.planners.base import Planner
from unskew.planners.report import Report

KEYS_KEPT = 100_000


@dataclass
class Window:
    """Messages counted since the last plan: by key for the heaviest, the others as a sum.

    >>> window = Window()
    >>> window.add(10, {b"ada": 6, b"bob": 1})
    >>> window.statistics(2).total_tuples
    10.0
    """

    rows: int = 0
    keys: Counter[bytes] = field(default_factory=Counter)

    def add(self, rows: int, keys: Mapping[bytes, int]) -> None:
        """Count a batch of `rows` rows, of which `keys` are the heaviest."""
        self.rows += rows
        self.keys.update(keys)
        if len(self.keys) > KEYS_KEPT:
            self.keys = Counter(dict(self.keys.most_common(KEYS_KEPT // 2)))

    def clear(self) -> None:
        self.rows = 0
        self.keys.clear()

    def statistics(self, partitions: int) -> Statistics:
        """Return the window for a planner. Rows of keys that are not listed are taken as spread evenly."""
        names = list(self.keys)
        counts = np.array([self.keys[name] for name in names], np.float64)
        hashes, first = np.unique(hashes_of(names, partitions), return_index=True)
        counts = counts[first]
        rest = np.full(partitions, max(0.0, self.rows - counts.sum()) / partitions)
        return Statistics(hashes, counts, counts, counts, rest, rest, rest)


@dataclass(frozen=True)
class Decider:
    """Decides for the next batch: asks the planner at most once an interval, and otherwise moves nothing."""

    planner: Planner  # must move keys: slots are Kafka's partitions, which stay
    interval_seconds: float = 10.0  # at least this long between two plans

    def due(self, decision: GatewayDecision, window: Window, now_ms: int) -> bool:
        return window.rows > 0 and now_ms - decision.planned_at_ms >= self.interval_seconds * 1000

    def decide(
        self, decision: GatewayDecision, window: Window, now_ms: int, use: GroupUse | None = None
    ) -> tuple[GatewayDecision, Report | None]:
        """Return the decision with keys moved if a plan is due and worth it, and the plan's report.

        With `use`, what consumers have measured, the planner knows how many messages wait, and what moves cost.
        """
        if not self.due(decision, window, now_ms):
            return decision, None
        statistics, planner = window.statistics(decision.partitions), self.planner
        if use is not None:
            seconds = max(now_ms - decision.planned_at_ms, 1) / 1000
            statistics = replace(statistics, use=ChannelUse(seconds, lag_tuples=np.array(use.lags, np.float64)))
            planner = use.costs.inform(planner)
        names = [*window.keys, *(key for key in decision.routes if key not in window.keys)]
        window.clear()
        table = decision.table
        plan = planner.plan(statistics, table, memory=decision.memory)
        if len(plan.moves.slots):
            raise ArgumentError(
                f"planner {self.planner.name!r} moves slots, which are Kafka's partitions here",
                hint="choose one that moves keys: smalops, mixed, readj",
            )
        decision = replace(decision, planned_at_ms=now_ms, memory=plan.memory)
        name_of = dict(zip(hashes_of(names, decision.partitions).tolist(), names, strict=True))
        targets = {
            name_of[key]: target
            for key, target in zip(plan.moves.keys.tolist(), plan.moves.key_targets.tolist(), strict=True)
        }
        return decision.with_moves(targets), plan.report
