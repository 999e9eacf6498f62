"""Which task each channel runs in where tasks have homes: places where local copies of state lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from unskew.load.statistics import add_up
from unskew.runtime.planning import evenly

SLACK = 0.1
"""Share by which the fullest task may be fuller than it has to be, so that channels stay where they are."""


def tasks_at_home(loads: NDArray[np.float64], homes: Sequence[str], copies: Mapping[int, str]) -> NDArray[np.int32]:
    """Return the task that each channel runs in: where its local copy is, as long as tasks stay evenly filled.

    A channel goes to the emptiest task if it has no copy, if its copy is where no task has its home, or if there is no
    room for it there.

    Parameters
    ----------
    loads
        Cost of each channel.
    homes
        The place of each task. Several may have the same one.
    copies
        Where channels have a local copy.

    Examples
    --------
    >>> tasks_at_home(np.ones(4), ["a", "b"], {}).tolist()
    [0, 1, 0, 1]
    >>> tasks_at_home(np.ones(4), ["a", "b"], {0: "b", 1: "b", 2: "a", 3: "gone"}).tolist()
    [1, 1, 0, 0]
    """
    room = (1 + SLACK) * float(add_up(loads, evenly(loads, len(homes)), len(homes)).max())
    tasks_at: dict[str, list[int]] = {}
    for task, place in enumerate(homes):
        tasks_at.setdefault(place, []).append(task)
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
