"""Which task each channel runs in: evenly filled, and where tasks have homes, beside the local copy of its state."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from unskew.load.statistics import Statistics, add_up
from unskew.routing.table import RoutingTable

SECONDS_PER_TASK = 0.05  # work that makes a task worthwhile; a task costs some 30 ms on two cores
MOST_SECONDS_PER_TASK = 1.0
SLACK = 0.1  # share by which the fullest task may exceed what is necessary, so that channels stay where they are

Loads = NDArray[np.float64]


def channel_loads(load: Statistics, table: RoutingTable) -> Loads:
    """Return the load of each channel; split keys fill up the emptiest of their channels."""
    split = np.isin(load.hashes, table.split_keys)
    loads = add_up(load.cost[~split], table.lookup(load.hashes[~split]), table.channels)
    loads += add_up(load.by_slot(len(table.slots))[1], table.slots, table.channels)
    for key, cost in zip(load.hashes[split].tolist(), load.cost[split].tolist(), strict=True):
        candidates = np.array(table.split[key])
        loads[candidates] = _filled(loads[candidates], cost)
    return loads


def _filled(levels: Loads, amount: float) -> Loads:
    """Pour an amount over levels, the lowest first."""
    ordered = np.sort(levels)
    level = (np.cumsum(ordered) + amount) / np.arange(1, len(ordered) + 1)  # if only the lowest 1, 2, ... are filled
    enough = level <= np.append(ordered[1:], np.inf)
    return np.asarray(np.maximum(levels, level[np.argmax(enough)]))


def tasks_for(loads: Loads, seconds: float | None, cores: int) -> NDArray[np.int32]:
    """Return the task that each channel runs in: as many tasks as the work is worth, evenly filled.

    `seconds` is how long the operator will work on all of it; None if that is not known.

    >>> tasks_for(np.array([3.0, 1.0, 1.0, 3.0]), seconds=0.1, cores=4).tolist()
    [0, 0, 1, 1]
    >>> tasks_for(np.ones(3), seconds=0.001, cores=4).tolist(), tasks_for(np.ones(3), seconds=9.0, cores=2).tolist()
    ([0, 0, 0], [0, 1, 2])
    """
    channels = len(loads)
    tasks = min(channels, cores)
    if seconds is not None:
        worth = max(min(cores, math.ceil(seconds / SECONDS_PER_TASK)), math.ceil(seconds / MOST_SECONDS_PER_TASK))
        tasks = max(1, min(channels, worth))
    return np.arange(channels, dtype=np.int32) if tasks == channels else evenly(loads, tasks)


def evenly(loads: Loads, tasks: int) -> NDArray[np.int32]:
    """Return a task for each channel, the heaviest channel first and the emptiest task first."""
    task_of, filled, held = np.zeros(len(loads), np.int32), np.zeros(tasks), np.zeros(tasks)
    for channel in np.argsort(-loads, kind="stable"):
        task = np.lexsort((held, filled))[0]  # the emptiest, of equals the one with fewest channels
        task_of[channel] = task
        filled[task] += loads[channel]
        held[task] += 1
    return task_of


def tasks_at_home(loads: Loads, homes: Sequence[str], copies: Mapping[int, str]) -> NDArray[np.int32]:
    """Return the task that each channel runs in: where its local copy is, as long as tasks stay evenly filled.

    `homes` has the place of each task, and `copies` the place of each channel's local copy. A channel goes to the
    emptiest task if it has no copy, if no task has its home there, or if those tasks have no room for it.

    >>> tasks_at_home(np.ones(4), ["a", "b"], {}).tolist()
    [0, 1, 0, 1]
    >>> tasks_at_home(np.ones(4), ["a", "b"], {0: "b", 1: "b", 2: "a", 3: "gone"}).tolist()
    [1, 1, 0, 0]
    """
    room = (1 + SLACK) * float(add_up(loads, evenly(loads, len(homes)), len(homes)).max())
    tasks_at: dict[str, list[int]] = defaultdict(list)
    for task, place in enumerate(homes):
        tasks_at[place].append(task)
    task_of, filled, held = np.zeros(len(loads), np.int32), np.zeros(len(homes)), np.zeros(len(homes))
    heaviest_first = np.argsort(-loads, kind="stable").tolist()
    for channel in sorted(heaviest_first, key=lambda channel: copies.get(channel) not in tasks_at):
        near = [t for t in tasks_at.get(copies.get(channel, ""), ()) if filled[t] + loads[channel] <= room]
        choice = np.array(near or range(len(homes)))
        task = choice[np.lexsort((held[choice], filled[choice]))[0]]
        task_of[channel] = task
        filled[task] += loads[channel]
        held[task] += 1
    return task_of
