"""Figures about a plan: what it improves and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.load.metrics import overload
from unskew.planners.problem import Problem


@dataclass(frozen=True)
class Report:
    """What a plan does, in figures. Overload is max/mean - 1 of the channels' cost."""

    planner: str
    channels: int  # of the new table
    overload_before: float  # under the old table
    overload_after: float
    deviation_after: float  # largest distance of any channel from the mean, to either side, over the mean
    migration_cost: float  # state that moves
    migration_share: float  # of all state
    moved_keys: int  # listed keys that change channel
    table_size: int  # keys that live away from home and need an entry
    forced: int  # keys placed although no channel could take them within the tolerance
    overload_bound: float  # no plan can do better while keys are whole
    lower_bound: float  # the fullest channel cannot be lighter while keys are whole: max(mean load, heaviest key)
    unsplittable: tuple[int, ...]  # hashes of keys too heavy for one channel, heaviest first; only splitting helps
    notes: tuple[str, ...]  # what was special, in single words
    seconds: float  # time it took to plan


def describe_plan(
    problem: Problem,
    owner: NDArray[np.int32],
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
        overload_before=overload(problem.loads_before()),
        overload_after=overload(after),
        deviation_after=float(np.abs(after - mean).max() / mean) if mean > 0 else 0.0,
        migration_cost=migration,
        migration_share=migration / all_state if all_state > 0 else 0.0,
        moved_keys=int(moved.sum()),
        table_size=int((owner != problem.home).sum()),
        forced=forced,
        overload_bound=max(heaviest / mean - 1, 0.0) if mean > 0 else 0.0,
        lower_bound=max(mean, heaviest),
        unsplittable=tuple(problem.hashes[too_heavy].tolist()) if problem.channels > 1 else (),
        notes=notes,
        seconds=seconds,
    )
