"""Load of the past, for plans that are made ahead: intervals of several batches, and windows of several intervals."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from unskew.load.channels import ChannelUse
from unskew.load.statistics import Statistics, add_intervals
from unskew.routing.table import RoutingTable
from unskew.runtime.held import Held
from unskew.runtime.settings import Planning


@dataclass(frozen=True, eq=False)
class Intervals:
    """What the batches since the last plan had, added up, and the intervals before them.

    Parameters
    ----------
    current, batches, began_ms
        The interval that is going on: its load, its batches, and when it began. None before its first batch.
    closed
        The load of the intervals before, oldest first, as far as the window reaches.
    use
        How busy the channels were in the last batch, and how long its moves took.
    held
        The state at the last plan, for planners that go by what an interval has added.
    """

    current: Statistics | None = None
    batches: int = 0
    began_ms: int = 0
    closed: tuple[Statistics, ...] = field(default=())
    use: ChannelUse | None = None
    held: Held | None = None

    def add(self, statistics: Statistics, use: ChannelUse | None, now_ms: int) -> Intervals:
        """Count a batch."""
        if self.current is None:
            return replace(self, current=statistics, batches=1, began_ms=now_ms, use=use)
        both = add_intervals([self.current, statistics])
        return replace(self, current=both, batches=self.batches + 1, use=use)

    def due(self, planning: Planning, now_ms: int) -> bool:
        """Tell whether the interval that is going on has had all it should have."""
        long_enough = now_ms - self.began_ms >= planning.interval_ms
        return self.current is not None and self.batches >= planning.interval_batches and long_enough

    def close(self, planning: Planning, held: Held, table: RoutingTable) -> tuple[Statistics, Intervals]:
        """Return the load to plan by, that of the last intervals, and what is left for the next plan.

        A planner with a window of its own adds up the state of several intervals (Fang's S(k, w)); it is told what each
        interval has added, so that no byte counts twice.
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
