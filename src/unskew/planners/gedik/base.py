"""What scan, redist and readj share: which keys get an entry, and how a table is judged."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unskew.load.metrics import ratio_of_tolerance, tolerated_deviation
from unskew.load.resources import ResourceFunction, resource_function
from unskew.load.statistics import add_up
from unskew.planners.base import Assignment, Planner, check
from unskew.planners.gedik.items import UTILITIES, Items
from unskew.planners.gedik.threshold import threshold_after_counting, threshold_before_counting
from unskew.planners.memory import Memory
from unskew.planners.problem import Channels, Column, Problem
from unskew.planners.report import Report, describe_plan


@dataclass(frozen=True)
class GedikPlanner(Planner):
    """Gives the hot keys entries of their own and leaves all others with their slots.

    Loads are functions of a key's share of the tuples. A key is hot if its share reaches a threshold that follows from
    the tolerance, see `threshold_after_counting`. Keys below it lose their entry and go home. With a single channel,
    without load, or if all resources are constant, there is nothing to balance and every key goes home.

    Parameters
    ----------
    tolerance
        Overload allowed over the mean, max/mean - 1. From ``channels - 1`` on everything is tolerated, and placing
        goes on with ``channels - 1``.
    balance_ratio
        The same as a max/min ratio above 1 (alpha in Gedik); overrides `tolerance`.
    memory_tolerance, compute_tolerance, network_tolerance
        A tolerance for one resource, where it is to differ.
    memory, compute, network
        What a key takes of each resource: ``"constant"``, ``"linear"``, ``"quadratic"`` or a `ResourceFunction` of
        its share of the tuples. Memory is also what moving a key costs.
    threshold_scale
        Part of the tolerated deviation that is left to keys without an entry (sigma in Gedik), in 0..1. The lower,
        the larger the table.
    utility
        How balance and migration are weighed: ``"a"`` balance alone, ``"apm"`` plus migration, ``"aplm"`` plus its
        logarithm, ``"atm"`` times migration, ``"atlm"`` times its logarithm.
    include_untracked_load
        Count the load of keys without an entry when channels are compared. The paper does not. Balances better and
        migrates more.
    count_error
        Share of the tuples by which counts may be too low (epsilon of lossy counting); keys get in that much below the
        threshold.
    eq3_compute_load
        Multiply computation by the share once more, as the paper's Eq. 3 is printed.
    """

    tolerance: float = 0.08
    balance_ratio: float | None = None
    memory_tolerance: float | None = None
    compute_tolerance: float | None = None
    network_tolerance: float | None = None
    memory: str | ResourceFunction = "linear"
    compute: str | ResourceFunction = "constant"
    network: str | ResourceFunction = "linear"
    threshold_scale: float = 0.1
    utility: str = "apm"
    include_untracked_load: bool = False
    count_error: float = 0.0
    eq3_compute_load: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tolerance", "memory_tolerance", "compute_tolerance", "network_tolerance"):
            value = getattr(self, name)
            good = value is None or value > 0
            check(good, f"{name} must be above 0", value, "exact balance is rarely possible; 0.01")
        ratio, scale, error = self.balance_ratio, self.threshold_scale, self.count_error
        check(ratio is None or ratio > 1, "balance_ratio must be above 1", ratio, "1.01 is strict already")
        check(0 < scale <= 1, "threshold_scale must be above 0 and at most 1", scale)
        check(error >= 0, "count_error must not be negative", error)
        check(self.utility in UTILITIES, "there is no utility of that name", self.utility, ", ".join(UTILITIES))
        for choice in (self.memory, self.compute, self.network):
            resource_function(choice)

    def knowing(self, memory: str | ResourceFunction, compute: str | ResourceFunction) -> Self:
        if (self.memory, self.compute) != (GedikPlanner.memory, GedikPlanner.compute):
            return self
        return replace(self, memory=memory, compute=compute)

    @abstractmethod
    def place(self, items: Items) -> Channels:
        """Return the channel of each item."""

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        hot = self.hot_keys(problem)
        if not len(hot):
            return Assignment(problem.home, notes=("no_hot_keys",), memory=memory)
        owner = problem.home.copy()
        owner[hot] = self.place(self.items(problem, hot))
        return Assignment(owner, memory=memory)

    def hot_keys(self, problem: Problem) -> NDArray[np.int64]:
        """Return the positions of the keys that get an entry, heaviest first, equal ones by position."""
        resources, deviations, total = self.resources(), self.deviations(problem.channels), problem.total_tuples
        if problem.channels == 1 or total == 0 or all(resource.is_constant for resource in resources):
            return np.empty(0, np.int64)
        sizes = (problem.channels, problem.distinct_keys, self.threshold_scale)
        before = threshold_before_counting(resources, deviations, *sizes)
        near = np.flatnonzero(problem.tuples >= max(before - self.count_error, 0.0) * total * (1 - 1e-9))
        share = problem.tuples[near] / total
        threshold = threshold_after_counting(resources, deviations, share, *sizes)
        hot = (share >= threshold - self.count_error) & (share > 0)
        near, share = near[hot], share[hot]
        return near[np.argsort(-share, kind="stable")]

    def items(self, problem: Problem, hot: NDArray[np.int64]) -> Items:
        """Return what placing the hot keys of a problem needs to know."""
        resources, total = self.resources(), problem.total_tuples
        rows: dict[tuple[ResourceFunction, float], int] = {}
        for row in zip(resources, self.deviations(problem.channels), strict=True):
            if not row[0].is_constant:
                rows[row] = rows.get(row, 0) + 1
        dropped = _away_by_entry(problem)
        dropped[hot] = False
        share = problem.tuples[hot] / total
        state, lost = resources[0](share), float(resources[0](problem.tuples[dropped] / total).sum())
        base_load = [
            _untracked_load(problem, hot, function) if self.include_untracked_load else np.zeros(problem.channels)
            for function, _ in rows
        ]
        return Items(
            channels=problem.channels,
            share=share,
            load=np.stack([function(share) for function, _ in rows]),
            multiplicity=np.array(list(rows.values())) // np.gcd.reduce(list(rows.values())),
            deviation=np.array([deviation for _, deviation in rows]),
            base_load=np.stack(base_load),
            state=state,
            current=problem.current[hot],
            home=problem.home[hot],
            migration=lost,
            ideal_migration=(float(state.sum()) + lost) / problem.channels or 1.0,
        )

    def resources(self) -> tuple[ResourceFunction, ResourceFunction, ResourceFunction]:
        """Return what a key takes of memory, computation and network."""
        memory, compute, network = (resource_function(r) for r in (self.memory, self.compute, self.network))
        return memory, compute.times_share() if self.eq3_compute_load else compute, network

    def deviations(self, channels: int) -> tuple[float, float, float]:
        """Return how far a channel may lie from the mean of memory, computation and network (theta in Gedik)."""
        common = self.balance_ratio or ratio_of_tolerance(self.tolerance, channels)
        given = (self.memory_tolerance, self.compute_tolerance, self.network_tolerance)
        ratios = (common if t is None else ratio_of_tolerance(t, channels) for t in given)
        memory, compute, network = (tolerated_deviation(ratio, channels) for ratio in ratios)
        return memory, compute, network

    def describe(self, problem: Problem, assignment: Assignment, *, seconds: float = 0.0) -> Report:
        """Return the figures of an answer; a balance ratio counts as the tolerance that it stands for."""
        tolerance = self.tolerance
        if self.balance_ratio is not None and problem.channels > 1:
            tolerance = tolerated_deviation(self.balance_ratio, problem.channels)
        forced, notes = assignment.forced, assignment.notes
        return describe_plan(problem, assignment.owner, self.name, tolerance, forced, notes, seconds)


def _away_by_entry(problem: Problem) -> NDArray[np.bool_]:
    """Tell which keys only an entry can have put where they are, and not a resize of the slots.

    An entry whose home the resize changes as well is not recognised; its state is left out of the migration cost.
    """
    follows = (problem.home >= problem.channels_before) | (problem.current >= problem.channels)
    away: NDArray[np.bool_] = (problem.current != problem.home) & ~follows
    return away


def _untracked_load(problem: Problem, hot: NDArray[np.int64], function: ResourceFunction) -> Column:
    """Return the load per channel of keys without an entry; keys that are not even listed count as equally heavy."""
    total = problem.total_tuples
    load = function(problem.tuples / total)
    load[hot] = 0.0
    per_channel = add_up(load, problem.home, problem.channels)
    if problem.background_tuples.any():
        keys = max(1.0, (problem.distinct_keys - len(problem.tuples)) / problem.channels)
        per_channel += keys * function(problem.background_tuples / (total * keys))
    return per_channel
