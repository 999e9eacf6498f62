"""smalops: hot keys of overloaded channels, the lighter first, go where they fit best."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.load.statistics import add_up
from unskew.planners.base import Assignment, Planner, check
from unskew.planners.memory import Memory
from unskew.planners.problem import Channels, Column, Problem
from unskew.planners.report import Report
from unskew.planners.smalops.best_fit import (
    Costs,
    Streams,
    kernel_place_new,
    kernel_rebalance,
    rule_number,
    two_choices,
)
from unskew.planners.smalops.hot_keys import check_threshold, hot_positions

Hashes = NDArray[np.int64]
Places = NDArray[np.int64]

FIRST_PLACE = ("two-choices", "stay")
PART_OF_A_CHANNEL = 0.01


@dataclass(frozen=True, kw_only=True)
class Smalops(Planner):
    """Gives hot keys entries of their own and moves the lighter of them off overloaded channels.

    A channel's load is that of its hot keys. A key that becomes hot goes to the lighter of two channels drawn at
    random. Then each channel above the mean, the heaviest first, gives hot keys away, the lightest first, until it is
    at the mean. A key may go to any channel below the mean to which the distance in load shrinks, and goes where the
    load comes closest to the mean. Light keys have few messages that a move could delay; the heaviest stay.

    Moving keys off overloaded channels never raises the balancing error (the sum of all distances from the mean). A
    key moves at most once per plan. A key that cools down goes home. Costs O(keys log keys) and, for each key of an
    overloaded channel, O(channels). Section II of Bhattacharya and Wood.

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
        super().__post_init__()
        given = self.hot_threshold is not None or self.hot_by in ("share", "listed")
        check(given, f"hot_threshold must be given with hot_by={self.hot_by!r}", self.hot_threshold)
        check_threshold(self.hot_by, 1.0 if self.hot_threshold is None else self.hot_threshold)
        rule_number(self.rule)
        check(self.tolerance >= 0, "tolerance must not be negative", self.tolerance, "0.08 allows 8 % overload")
        check(self.cooling_windows >= 1, "cooling_windows must be at least 1", self.cooling_windows)
        known = self.first_place in FIRST_PLACE
        check(known, "there is no such first place", self.first_place, " or ".join(FIRST_PLACE))
        for name in ("message_seconds", "accumulation_seconds", "interval_seconds"):
            check(getattr(self, name) > 0, f"{name} must be above 0", getattr(self, name))
        for name in ("move_seconds", "move_seconds_per_byte"):
            check(getattr(self, name) >= 0, f"{name} must not be negative", getattr(self, name))

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        """Place newly hot keys, rebalance, and send home what has cooled down."""
        hot = self.hot_keys(problem)
        before, cool_windows = hot_lately(memory)
        after = cool_down(before, cool_windows, problem.hashes[hot], self.cooling_windows)
        now = Memory({}, {"hot_keys": after})
        kept = _among(problem.hashes, after["hash"].to_numpy()) & (problem.current < problem.channels)
        owner: Channels = np.where(kept, problem.current, problem.home).astype(np.int32)
        if problem.channels == 1 or not len(hot):
            return Assignment(owner, notes=() if len(hot) else ("no_hot_keys",), memory=now)
        known = _among(problem.hashes[hot], before) | (problem.current[hot] != problem.home[hot])
        new = np.flatnonzero(~known) if self.first_place == "two-choices" else np.empty(0, np.int64)
        owner[hot], refused = self._place(problem, hot, new, owner)
        notes = (f"hot={len(hot)}", f"new={int((~known).sum())}")
        return Assignment(owner, 0, (*notes, f"refused={refused}") if refused else notes, now)

    def hot_keys(self, problem: Problem) -> Places:
        """Return the positions of the hot keys, ascending."""
        threshold = PART_OF_A_CHANNEL / problem.channels if self.hot_threshold is None else self.hot_threshold
        return hot_positions(problem.tuples, problem.total_tuples, self.hot_by, threshold)

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
        return dataclasses.replace(report, unsplittable=tuple(problem.hashes[heavy].tolist()))

    def _place(self, problem: Problem, hot: Places, new: Places, owner: Channels) -> tuple[Channels, int]:
        """Return the channels of the hot keys, and how often the rule kept a key back."""
        channels, use = problem.channels, problem.use
        seconds = self.interval_seconds if use is None else use.window_seconds
        streams = Streams(
            problem.cost[hot],
            problem.tuples[hot] / seconds,
            self.move_seconds + self.move_seconds_per_byte * problem.state[hot],
        )
        lag = None if use is None else use.lag_tuples
        if lag is None or len(lag) != channels:
            lag = np.empty(0)
        costs = Costs(rule_number(self.rule), self.message_seconds, self.accumulation_seconds, lag)
        placed = owner[hot]
        settled = np.ones(len(hot), bool)
        settled[new] = False
        loads = self._cold_loads(problem, hot, owner) + add_up(streams.load[settled], placed[settled], channels)
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

    def _cold_loads(self, problem: Problem, hot: Places, owner: Channels) -> Column:
        if not self.include_cold:
            return np.zeros(problem.channels)
        cost = problem.cost.copy()
        cost[hot] = 0.0
        return problem.background_cost + add_up(cost, owner, problem.channels)


def hot_lately(memory: Memory) -> tuple[Hashes, NDArray[np.int32]]:
    """Return the keys that are hot or were lately, ascending, and how many windows in a row each was not hot."""
    if "hot_keys" not in memory.tables:
        return np.empty(0, np.int64), np.empty(0, np.int32)
    table = memory.tables["hot_keys"]
    return table["hash"].to_numpy(), table["cool_windows"].to_numpy()


def cool_down(hashes: Hashes, cool_windows: NDArray[np.int32], hot: Hashes, windows: int) -> pa.Table:
    """Return what to remember after a window in which exactly `hot` were hot; keys cool for `windows` are dropped.

    >>> before = np.array([3, 8]), np.array([0, 0], np.int32)
    >>> cool_down(*before, hot=np.array([3]), windows=2).to_pydict()
    {'hash': [3, 8], 'cool_windows': [0, 1]}
    >>> cool_down(*before, hot=np.array([3]), windows=1).to_pydict()
    {'hash': [3], 'cool_windows': [0]}
    """
    cool = ~_among(hashes, np.sort(hot))
    since = cool_windows[cool] + 1
    stay = since < windows
    all_hashes = np.concatenate([hot, hashes[cool][stay]])
    all_windows = np.concatenate([np.zeros(len(hot), np.int32), since[stay].astype(np.int32)])
    order = np.argsort(all_hashes, kind="stable")
    return pa.table({"hash": all_hashes[order], "cool_windows": all_windows[order]})


def _among(hashes: Hashes, ascending: Hashes) -> NDArray[np.bool_]:
    """Tell which hashes stand in a sorted list; several times as fast as `numpy.isin`, which sorts or hashes both."""
    if not len(ascending):
        return np.zeros(len(hashes), bool)
    place = np.minimum(np.searchsorted(ascending, hashes), len(ascending) - 1)
    found: NDArray[np.bool_] = ascending[place] == hashes
    return found
