"""What skew costs, and what each remedy would bring: a model of one batch."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from unskew.advice.keys import FINER, Column, KeyLoads

TASK_SECONDS = 0.02  # that Spark takes to start and end a task, spread over the cores
COUNTING_SECONDS = 0.15  # that unskew takes a batch for counting and planning,
COUNTING_SECONDS_PER_ROW = 0.5e-6  # and more for every row, spread over the cores
NOW, PARTITIONS, COMBINE, BALANCE, SPLIT = "now", "more partitions", "pre-aggregation", "balance", "splitting"
IF_IT_MERGES = "only if partial results of a key can be merged, as in counts and sums"


@dataclass(frozen=True)
class Timing:
    """What a batch takes. Where nothing was measured, loads stand for seconds."""

    work_seconds: float  # of all tasks that hold state, added up
    fixed_seconds: float = 0.0  # all else in a batch, which no remedy changes
    rows: float = 0.0  # of a batch; 0 if unknown
    measured: bool = True

    @property
    def task_seconds(self) -> float:
        return TASK_SECONDS if self.measured else 0.0

    def counting_seconds(self, cores: int) -> float:
        """Return what unskew itself costs a batch."""
        return COUNTING_SECONDS + COUNTING_SECONDS_PER_ROW * self.rows / cores if self.measured else 0.0


@dataclass(frozen=True)
class Remedy:
    """One thing to do. The gain is how many times as fast a batch would be; below 1 it would be slower."""

    name: str
    seconds: float  # of a batch; loads of the fullest core where nothing was measured
    gain: float
    imbalance: float  # fullest partition or channel over the mean
    tasks: int  # partitions or channels
    condition: str = ""


def makespan(seconds: Column, cores: int) -> float:
    """Return when the last task ends if tasks start in order, each on the core that is free first, as in Spark.

    >>> import numpy as np
    >>> makespan(np.array([3.0, 1.0, 1.0, 2.0]), 2)
    4.0
    """
    if cores >= len(seconds):
        return float(seconds.max(initial=0.0))
    free = [0.0] * cores
    for each in seconds.tolist():
        heapq.heapreplace(free, free[0] + each)
    return max(free)


def imbalance(loads: Column) -> float:
    """Return the fullest over the mean; 1 if there is no load."""
    return float(loads.max() / loads.mean()) if loads.sum() > 0 else 1.0


def remedies(
    keys: KeyLoads, timing: Timing, *, partitions: int, cores: int, now: Column | None = None
) -> tuple[Remedy, ...]:
    """Return what a batch takes now and under each remedy, the present first.

    Parameters
    ----------
    keys
        Who has the load.
    timing
        What a batch takes.
    partitions
        How many partitions Spark has now. unskew gets as many channels as there are cores, its default.
    cores
        How many tasks run at once.
    now
        Load of each partition, if it was measured; else what Spark's hash makes of the keys.
    """
    scale = timing.work_seconds / keys.total if keys.total > 0 else 0.0
    found = keys.by_partition(partitions) if now is None else now
    before = timing.fixed_seconds + makespan(found * (timing.work_seconds / max(found.sum(), 1e-300)), cores)

    def remedy(name: str, loads: Column, more_seconds: float = 0.0, condition: str = "") -> Remedy:
        seconds = timing.fixed_seconds + makespan(loads * scale, cores) + more_seconds
        return Remedy(name, seconds, before / seconds if seconds > 0 else 1.0, imbalance(loads), len(loads), condition)

    made = [Remedy(NOW, before, 1.0, imbalance(found), len(found))]
    finer = [times * partitions for times in range(2, FINER + 1, 2)]
    starts = timing.task_seconds / cores
    tried = [remedy(PARTITIONS, keys.by_partition(each), starts * (each - partitions)) for each in finer]
    made.append(min(tried, key=lambda each: each.seconds))
    if timing.rows > 0:
        sent = keys.scaled(timing.rows).combined(cores).by_partition(partitions)
        work = timing.work_seconds / cores  # every row is still worked on, evenly, where it is read
        made.append(remedy(COMBINE, sent * (keys.total / timing.rows), work, IF_IT_MERGES))
    counting = timing.counting_seconds(cores)
    made.append(remedy(BALANCE, keys.balanced(cores), counting))
    made.append(remedy(SPLIT, keys.split(cores), counting, IF_IT_MERGES))
    return tuple(made)


def skew_seconds(before: Remedy, timing: Timing, cores: int) -> float:
    """Return how much longer a batch takes than if its work were spread evenly over the cores."""
    return max(before.seconds - timing.fixed_seconds - timing.work_seconds / min(cores, before.tasks), 0.0)
