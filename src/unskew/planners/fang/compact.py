"""Planning on compact records instead of keys."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unskew.planners.fang.balance import Balancer, Trial
from unskew.planners.fang.order import Items
from unskew.planners.fang.records import Records

Column = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RecordPlan:
    """What a planner made of compact records.

    Parameters
    ----------
    records
        The records with their next owners; a record whose keys part is split into several.
    source
        For each of them, the row of the records as reported.
    loads
        Estimated cost per channel, background included.
    forced
        Keys placed although no channel could take them within the tolerance.
    notes
        Short words on what was special.
    by_cost
        Whether keys rank by cost, and not by migration priority; decides which keys of a record are to move.
    """

    records: Records
    source: NDArray[np.int64]
    loads: Column
    forced: int = 0
    notes: tuple[str, ...] = ()
    by_cost: bool = False


class RecordBalancer(Balancer):
    """A balancer of records: the copies of one are alike, and the phases take as many as they need."""

    def __init__(self, records: Records, background: Column, tolerance: float, exponent: float) -> None:
        self.records = records
        current = np.where(records.current < len(background), records.current, records.home)
        away = current != records.home
        self.record_of = np.repeat(np.arange(len(records)), 1 + away)
        copies = records.copies[self.record_of]
        copies[np.flatnonzero(np.diff(self.record_of, prepend=-1) == 0)] = 0  # twins: copies that a trial sends home
        cost, state, home = (column[self.record_of] for column in (records.cost, records.state, records.home))
        items = Items.of(cost, state, current[self.record_of], home, copies)
        super().__init__(items, background, tolerance, exponent, twinned=True)

    def plan(self, trial: Trial, notes: tuple[str, ...]) -> RecordPlan:
        """Return the plan that follows `trial`."""
        item, channel, copies = self.spread(trial)
        channels = len(self.loads)
        pairs, where = np.unique(self.record_of[item] * channels + channel, return_inverse=True)
        source, target = pairs // channels, (pairs % channels).astype(np.int32)
        counted = np.bincount(where, copies, len(pairs)).astype(np.int64)
        records = replace(self.records.take(source), next=target, copies=counted)
        return RecordPlan(records, source, trial.loads, trial.forced, notes, trial.by_cost)

    def keep(self) -> RecordPlan:
        """Return the plan that leaves everything where it is; keys of a channel that leaves go home."""
        records = self.records
        current = np.where(records.current < len(self.loads), records.current, records.home).astype(np.int32)
        return RecordPlan(replace(records, next=current), np.arange(len(records)), self.loads)
