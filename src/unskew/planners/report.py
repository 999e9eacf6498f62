"""Figures about a plan: what it improves and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.planners.problem import Problem


@dataclass(frozen=True)
class Report:
    """What a plan does, in figures.

    Parameters
    ----------
    planner
        Name of the planner.
    channels
        Channels of the new table.
    imbalance_before, imbalance_after
        Overload of the fullest channel over the mean, max/mean - 1, under the old and the new table.
    deviation_after
        Largest distance of any channel from the mean, to either side, over the mean.
    migration_cost, migration_share
        State that moves, and its share of all state.
    moved_keys
        Listed keys that change channel.
    table_size
        Keys that live away from home and need an entry.
    forced
        Keys placed although no channel could take them within the tolerance.
    lower_bound
        No plan with one owner per key can make the fullest channel lighter: max(mean load, heaviest key).
    unsplittable
        Hashes of keys that alone exceed what one channel may hold, heaviest first. Only splitting helps them.
    notes
        What was special, in single words.
    seconds
        Time it took to plan.
    """

    planner: str
    channels: int
    imbalance_before: float
    imbalance_after: float
    deviation_after: float
    migration_cost: float
    migration_share: float
    moved_keys: int
    table_size: int
    forced: int
    lower_bound: float
    unsplittable: tuple[int, ...]
    notes: tuple[str, ...]
    seconds: float


def describe_plan(
    problem: Problem,
    owner: NDArray[np.int32],
    *,
    planner: str,
    tolerance: float,
    forced: int = 0,
    notes: tuple[str, ...] = (),
    seconds: float = 0.0,
) -> Report:
    """Work out the figures of a plan that gives key i to channel ``owner[i]``."""
    mean, heaviest = problem.mean_load, float(problem.cost.max(initial=0.0))
    after = problem.loads(owner)
    moved = owner != problem.current
    migration = float(problem.state[moved].sum()) + problem.background_state_moved
    all_state = float(problem.state.sum() + problem.background_state.sum())
    too_heavy = np.flatnonzero(problem.cost > (1 + tolerance) * mean) if mean > 0 else np.empty(0, np.int64)
    too_heavy = too_heavy[np.argsort(-problem.cost[too_heavy], kind="stable")]
    return Report(
        planner=planner,
        channels=problem.channels,
        imbalance_before=_overload(problem.loads_before()),
        imbalance_after=_overload(after),
        deviation_after=float(np.abs(after - mean).max() / mean) if mean > 0 else 0.0,
        migration_cost=migration,
        migration_share=migration / all_state if all_state > 0 else 0.0,
        moved_keys=int(moved.sum()),
        table_size=int((owner != problem.home).sum()),
        forced=forced,
        lower_bound=max(mean, heaviest),
        unsplittable=tuple(int(h) for h in problem.hashes[too_heavy]) if problem.channels > 1 else (),
        notes=notes,
        seconds=seconds,
    )


def _overload(loads: NDArray[np.float64]) -> float:
    mean = loads.mean()
    return float(loads.max() / mean - 1) if mean > 0 else 0.0
