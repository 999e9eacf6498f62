"""Llfd, MinMig and MinTable: each runs the three phases once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.planners.fang.balance import Balancer, Trial
from unskew.planners.fang.base import CappedPlanner, FangPlanner


@dataclass(frozen=True, kw_only=True)
class Llfd(FangPlanner):
    """Least-load fit decreasing: no cleaning, the heaviest keys first.

    Keys are taken off overloaded channels, the heaviest first, and offered, the heaviest first, to the channels, the
    least loaded first. A channel that would be overloaded may pass on lighter keys to make room (Adjust).

    If a perfectly even assignment exists and every key is lighter than the mean load, the fullest channel ends at most
    ``max(tolerance, (1 - 1/N) / 3)`` over the mean. Every key is placed at most once; costs O(keys) for the loads plus
    O(m log m) for the m keys it looks at. Algorithm 1 in section III-A of Fang et al.

    Examples
    --------
    >>> from unskew.planners import Memory, Problem
    >>> problem = Problem.of_keys(
    ...     [7, 4, 2, 1, 5, 1], channels=2, current=[0, 0, 1, 1, 0, 1], home=[0, 0, 0, 1, 1, 1]
    ... )
    >>> answer = Llfd(tolerance=0).assign(problem, Memory())
    >>> answer.owner.tolist(), problem.loads(answer.owner).tolist()
    ([1, 0, 1, 0, 0, 1], [10.0, 10.0])
    """

    name: ClassVar[str] = "llfd"
    summary: ClassVar[str] = "Fang: heaviest keys of overloaded channels to the least loaded, with exchange"

    def solve(self, balancer: Balancer) -> tuple[Trial, tuple[str, ...]]:
        return balancer.trial(0, by_cost=True), ()


@dataclass(frozen=True, kw_only=True)
class MinMig(FangPlanner):
    """Keeps the table as it is and takes keys by migration priority: little state moved, a table that grows.

    The priority of a key is ``cost ** migration_exponent / state``; a key without state comes first, a key without
    cost is never touched. The bound of `Llfd` on the overload holds here too. Nothing bounds the table: under steady
    change it tends to ``keys * (N - 1) / N`` entries. Algorithm 3 in section III-B of Fang et al.

    Parameters
    ----------
    migration_exponent
        Weight of cost against state, beta in Fang et al. At 1 keys rank by cost per byte; larger values prefer heavy
        keys, which keeps the table smaller.

    Examples
    --------
    >>> from unskew.planners import Memory, Problem
    >>> problem = Problem.of_keys(
    ...     [6, 6, 2, 2], channels=2, state=[9, 1, 1, 1], current=[0, 0, 1, 1], home=[0, 0, 1, 1]
    ... )
    >>> MinMig().assign(problem, Memory()).owner.tolist()
    [0, 1, 0, 1]
    """

    name: ClassVar[str] = "minmig"
    summary: ClassVar[str] = "Fang: move keys with much cost and little state; the table is not bounded"

    migration_exponent: float = 1.5

    def solve(self, balancer: Balancer) -> tuple[Trial, tuple[str, ...]]:
        return balancer.trial(0), ()


@dataclass(frozen=True, kw_only=True)
class MinTable(CappedPlanner):
    """Cleans the whole table, then places the heaviest keys first: a small table, much state moved.

    The bound of `Llfd` on the overload holds here too. `table_cap` only decides when to act: the table that results is
    about as small as one can have it, and is noted as ``table_overflow`` if it still holds more. Algorithm 2 in section
    III-B of Fang et al.

    Examples
    --------
    >>> from unskew.planners import Memory, Problem
    >>> problem = Problem.of_keys(
    ...     [7, 4, 2, 1, 5, 1], channels=2, current=[0, 0, 1, 1, 0, 1], home=[0, 0, 0, 1, 1, 1]
    ... )
    >>> answer = MinTable(tolerance=0).assign(problem, Memory())
    >>> answer.owner.tolist(), problem.loads(answer.owner).tolist()
    ([0, 1, 0, 0, 1, 1], [10.0, 10.0])
    """

    name: ClassVar[str] = "mintable"
    summary: ClassVar[str] = "Fang: empty the table first, then place by cost; few entries, much state moved"

    def solve(self, balancer: Balancer) -> tuple[Trial, tuple[str, ...]]:
        trial = balancer.trial(balancer.table_size, by_cost=True)
        return trial, ("table_overflow",) if trial.table_size > self.entries_allowed else ()
