"""flux-memory: the channel with the least memory left gives a slot to the one with the most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.planners.flux.base import FluxPlanner
from unskew.planners.flux.round import Round, first_true, pairs_from_the_ends


@dataclass(frozen=True, kw_only=True)
class FluxMemory(FluxPlanner):
    """Evens out the memory left: per pair, the largest slot that brings the two closer together, resident ones first.

    A pair moves a slot only if the first has less memory left than the mean and uses `imbalance_ratio` times as large
    a part of its own as the second, or holds more than it has memory for while the slot fits into what the second has
    left; the first pair that fails ends the round. What counts is all state of a channel, in memory or on disk, so
    that even when memory runs out everywhere the slots on disk are shared evenly. Where budgets are not known, all
    channels have the same.

    Examples
    --------
    >>> from unskew.load import ChannelUse
    >>> from unskew.planners import Memory, Problem
    >>> use = ChannelUse(window_seconds=1.0, memory_bytes=[50, 100], spilled=[True, False, False])
    >>> slots = Problem.of_keys([1, 1, 1], channels=2, current=[0, 0, 1], home=[0, 0, 1], state=[40, 30, 20], use=use)
    >>> FluxMemory().assign(slots, Memory()).owner.tolist()
    [0, 1, 1]

    References
    ----------
    Shah et al., "Flux: An Adaptive Partitioning Operator for Continuous Query Systems", ICDE 2003, section 5.
    """

    name: ClassVar[str] = "flux-memory"
    summary: ClassVar[str] = "Flux: the channel with the least memory left gives a slot to the one with the most"

    def choose(self, round: Round) -> list[tuple[int, int]]:
        """Return the slots to move in this round, each with its new channel."""
        return moves_by_memory(round, self.imbalance_ratio)


def moves_by_memory(round: Round, imbalance_ratio: float) -> list[tuple[int, int]]:
    """Return the moves of a round by memory."""
    used, size = round.used_bytes, round.state_bytes
    fair = max(float(used.mean()), 1.0)
    memory = np.where(np.isfinite(round.memory_bytes), np.maximum(round.memory_bytes, 1.0), fair)
    left, pressure = memory - used, used / memory
    moves: list[tuple[int, int]] = []
    for donor, receiver in pairs_from_the_ends(np.argsort(left, kind="stable")):
        uneven = pressure[donor] >= imbalance_ratio * pressure[receiver]
        if left[donor] >= left.mean() or not (uneven or left[donor] < 0):
            break
        slots = round.slots_of(donor, round.spilled, -size)
        gap = left[receiver] - left[donor]
        good = (size[slots] > 0) & (np.abs(gap - 2 * size[slots]) < gap)
        if not uneven:  # the ratio alone would leave the last few slots on disk although there is room for them
            good &= size[slots] <= left[receiver]
        place = first_true(good)
        if place is not None:
            moves.append((int(slots[place]), receiver))
    return moves
