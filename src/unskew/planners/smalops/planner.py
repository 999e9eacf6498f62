"""smalops: hot keys of overloaded channels, the lighter first, go where they fit best."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.load.statistics import add_up
from unskew.planners.base import Assignment, Planner
from unskew.planners.memory import Memory
from unskew.planners.problem import Channels, Column, Problem
from unskew.planners.report import Report
from unskew.planners.smalops.app_state import Costs, rule_number
from unskew.planners.smalops.best_fit import Streams, kernel_place_new, kernel_rebalance, two_choices
from unskew.planners.smalops.cooling import Cooling
from unskew.planners.smalops.hot_keys import check_threshold, hot_positions

FIRST_PLACE = ("two-choices", "stay")
PART_OF_A_CHANNEL = 0.01


@dataclass(frozen=True, kw_only=True)
class Smalops(Planner):
    """Gives hot keys entries of their own and moves the lighter of them off overloaded channels.

    A channel's load is that of its hot keys. A key that becomes hot goes to the lighter of two channels drawn at
    random. Then each channel above the mean, the heaviest first, gives hot keys away, the lightest first, until it is
    at the mean: a key may go to any channel below the mean to which the distance in load shrinks, and goes where the
    load comes closest to the mean. Light keys have few messages that a move could delay; the heaviest stay.

    Moving keys off overloaded channels never raises the balancing error (the sum of all distances from the mean). A
    key moves at most once per plan. A key that cools down goes home. Costs O(keys log keys) and, for each key of an
    overloaded channel, O(channels).

    Parameters
    ----------
    tolerance
        Overload over the mean up to which hot keys stay where they are; SMALOPS has 0.
    hot_by, hot_threshold
        Which keys are hot: ``"share"``, ``"abs"``, ``"cover"`` or ``"listed"`` with its threshold, see `hot_positions`.
        By default, keys with a hundredth of a mean channel's tuples: at most a hundred for each channel. The paper's
        long run has ``"abs"`` and 100.
    cooling_windows
        Intervals without being hot after which a key goes home. 1 makes keys near the threshold flap.
    first_place
        What a newly hot key does: ``"two-choices"``, or ``"stay"`` where it is, which moves less.
    include_cold
        Count all other load, too, when channels are compared. SMALOPS does not; balances better.
    rule
        When moving pays although the key has state: ``"none"`` (always), ``"printed"`` or ``"backlog"``, see
        `worth_moving`. Keys that go home are not asked.
    message_seconds
        Time to process a message, for the rule.
    move_seconds, move_seconds_per_byte
        Time to move the state of a key: so much for any, and for each byte.
    accumulation_seconds
        For how long messages pile up, for ``"backlog"`` where nobody measures how many wait (`ChannelUse.lag_tuples`).
    interval_seconds
        Length of an interval where the statistics do not say, for rates.
    seed
        Of the two choices.

    Examples
    --------
    >>> from unskew.planners import Memory, Problem
    >>> owners = [0, 0, 0, 0, 1, 1, 2]
    >>> problem = Problem.of_keys([60, 25, 15, 10, 30, 20, 20], channels=3, current=owners, home=owners)
    >>> answer = Smalops(first_place="stay").assign(problem, Memory())
    >>> answer.owner.tolist(), problem.loads(answer.owner).tolist()
    ([0, 2, 2, 1, 1, 1, 2], [60.0, 60.0, 60.0])

    References
    ----------
    Bhattacharya and Wood, "Load Balancing and Generalized Split State Reconciliation in Event Driven Systems",
    section II.
    """

    name: ClassVar[str] = "smalops"
    summary: ClassVar[str] = "SMALOPS: lighter hot keys of overloaded channels go where they fit best"

    tolerance: float = 0.0
    hot_by: str = "share"
    hot_threshold: float | None = None
    cooling_windows: int = 2
    first_place: str = "two-choices"
    include_cold: bool = False
    rule: str = "none"
    message_seconds: float = 50e-6
    move_seconds: float = 0.0
    move_seconds_per_byte: float = 0.0
    accumulation_seconds: float = 1.0
    interval_seconds: float = 10.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.hot_by not in ("share", "listed") and self.hot_threshold is None:
            raise ArgumentError("hot_threshold must be given", where=f"hot_by={self.hot_by!r}")
        check_threshold(self.hot_by, 1.0 if self.hot_threshold is None else self.hot_threshold)
        rule_number(self.rule)
        if not self.tolerance >= 0:
            raise ArgumentError("tolerance must not be negative", got=self.tolerance, hint="0.08 allows 8 % overload")
        if self.cooling_windows < 1:
            raise ArgumentError("cooling_windows must be at least 1", got=self.cooling_windows)
        if self.first_place not in FIRST_PLACE:
            raise ArgumentError("there is no such first place", got=self.first_place, hint=" or ".join(FIRST_PLACE))
        for name in ("message_seconds", "accumulation_seconds", "interval_seconds"):
            if not getattr(self, name) > 0:
                raise ArgumentError(f"{name} must be above 0", got=getattr(self, name))
        for name in ("move_seconds", "move_seconds_per_byte"):
            if not getattr(self, name) >= 0:
                raise ArgumentError(f"{name} must not be negative", got=getattr(self, name))

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        """Place newly hot keys, rebalance, and send home what has cooled down."""
        hot = self.hot_keys(problem)
        before = Cooling.of_memory(memory)
        after = before.next(problem.hashes[hot], self.cooling_windows)
        kept = after.holds(problem.hashes) & (problem.current < problem.channels)
        owner: Channels = np.where(kept, problem.current, problem.home).astype(np.int32)
        if problem.channels == 1 or not len(hot):
            return Assignment(owner, notes=() if len(hot) else ("no_hot_keys",), memory=after.to_memory())
        known = before.holds(problem.hashes[hot]) | (problem.current[hot] != problem.home[hot])
        new = np.flatnonzero(~known) if self.first_place == "two-choices" else np.empty(0, np.int64)
        placed, refused = self._place(problem, hot, new, owner)
        owner[hot] = placed
        notes = (f"hot={len(hot)}", f"new={int((~known).sum())}")
        return Assignment(owner, 0, (*notes, f"refused={refused}") if refused else notes, after.to_memory())

    def hot_keys(self, problem: Problem) -> NDArray[np.int64]:
        """Return the positions of the hot keys, ascending."""
        total = float(problem.tuples.sum() + problem.background_tuples.sum())
        threshold = PART_OF_A_CHANNEL / problem.channels if self.hot_threshold is None else self.hot_threshold
        return hot_positions(problem.tuples, total, self.hot_by, threshold)

    def describe(self, problem: Problem, assignment: Assignment, *, seconds: float = 0.0) -> Report:
        """Return the figures of an answer; a hot key is unsplittable if it alone is above the mean that is aimed at."""
        report = super().describe(problem, assignment, seconds=seconds)
        if problem.channels == 1:
            return report
        hot = self.hot_keys(problem)
        load = problem.cost[hot]
        mean = problem.mean_load if self.include_cold else float(load.sum()) / problem.channels
        heavy = np.flatnonzero(load > mean * (1 + 1e-12))
        heavy = hot[heavy[np.argsort(-load[heavy], kind="stable")]]
        return dataclasses.replace(report, unsplittable=tuple(int(h) for h in problem.hashes[heavy]))

    def _place(
        self, problem: Problem, hot: NDArray[np.int64], new: NDArray[np.int64], owner: Channels
    ) -> tuple[Channels, int]:
        """Return the channels of the hot keys, and how often the rule kept a key back."""
        channels, use = problem.channels, problem.use
        seconds = self.interval_seconds if use is None else use.window_seconds
        streams = Streams(
            problem.cost[hot],
            problem.tuples[hot] / seconds,
            self.move_seconds + self.move_seconds_per_byte * problem.state[hot],
        )
        lag = None if use is None else use.lag_tuples
        usable = lag is not None and len(lag) == channels
        costs = Costs(
            rule_number(self.rule),
            self.message_seconds,
            self.accumulation_seconds,
            lag if lag is not None and usable else np.empty(0),
        )
        placed = owner[hot]
        loads = self._cold_loads(problem, hot, owner)
        settled = np.ones(len(hot), bool)
        settled[new] = False
        loads += add_up(streams.load[settled], placed[settled], channels)
        rates = add_up(streams.rate[settled], placed[settled], channels)
        order = new[np.argsort(-streams.load[new], kind="stable")]
        drawn = two_choices(problem.hashes[hot[order]], channels, self.seed)
        refused = kernel_place_new(streams, order, drawn, costs, placed, loads, rates)
        mean = float(loads.mean())
        if loads.max() > (1 + self.tolerance) * mean:
            sources = np.argsort(-loads, kind="stable")
            sources = sources[loads[sources] > mean]
            may_leave = np.flatnonzero((loads > mean)[placed])
            ascending = may_leave[np.lexsort((streams.load[may_leave], placed[may_leave]))]
            first = np.searchsorted(placed[ascending], np.arange(channels + 1))
            refused += kernel_rebalance(streams, ascending, first, sources, costs, placed, loads, rates)
        return placed, int(refused)

    def _cold_loads(self, problem: Problem, hot: NDArray[np.int64], owner: Channels) -> Column:
        if not self.include_cold:
            return np.zeros(problem.channels)
        cost = problem.cost.copy()
        cost[hot] = 0.0
        return problem.background_cost + add_up(cost, owner, problem.channels)
