"""Load of the past, for plans that are made ahead: intervals of several batches, and windows of several intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unskew.load.channels import ChannelUse
from unskew.load.statistics import Statistics, add_intervals
from unskew.routing.table import RoutingTable
from unskew.runtime.held import Held
from unskew.runtime.settings import Planning


@dataclass(frozen=True, eq=False)
class Intervals:
    """The load since the last plan, and that of the intervals before it."""

    current: Statistics | None = None  # the open interval; None before its first batch
    batches: int = 0  # of the open interval
    began_ms: int = 0
    closed: tuple[Statistics, ...] = ()  # the intervals before, oldest first, as far as the window reaches
    use: ChannelUse | None = None  # how busy the channels were in the last batch, and how long its moves took
    held: Held | None = None  # the state at the last plan, for planners that go by what an interval has added

    def add(self, statistics: Statistics, use: ChannelUse | None, now_ms: int) -> Intervals:
        """Add a batch to the open interval."""
        if self.current is None:
            return replace(self, current=statistics, batches=1, began_ms=now_ms, use=use)
        both = add_intervals([self.current, statistics])
        return replace(self, current=both, batches=self.batches + 1, use=use)

    def due(self, planning: Planning, now_ms: int) -> bool:
        """Tell whether the open interval is complete."""
        long_enough = now_ms - self.began_ms >= planning.interval_ms
        return self.current is not None and self.batches >= planning.interval_batches and long_enough

    def close(self, planning: Planning, held: Held, table: RoutingTable) -> tuple[Statistics, Intervals]:
        """Return the load of the last intervals, to plan by, and what is left for the next plan.

        A planner with a window of its own adds up the state of several intervals (Fang's S(k, w)). It gets only what
        each interval has added, so that no byte counts twice.
        """
        assert self.current is not None
        closed = (*self.closed, self.current)[-planning.window :]
        load = replace(add_intervals(list(closed)), use=self.use)
        kept = closed[1 - planning.window :] if planning.window > 1 else ()
        if getattr(planning.planner, "window", 1) == 1:
            return load, Intervals(closed=kept)
        if self.held is not None:
            keys, slots = self.held.beside(load.hashes, table)
            added = np.maximum(load.by_slot(len(slots))[2] - slots, 0.0)
            load = replace(load, state=np.maximum(load.state - keys, 0.0), slot_state=added)
        return load, Intervals(closed=kept, held=held)
