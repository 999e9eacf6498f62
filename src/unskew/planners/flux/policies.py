"""flux-load, flux-memory and flux-hybrid: which slots a round moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.planners.base import check
from unskew.planners.flux.base import FluxPlanner
from unskew.planners.flux.round import Move, Round, pairs_from_the_ends

TINY = 1e-9


@dataclass(frozen=True, kw_only=True)
class FluxLoad(FluxPlanner):
    """Evens out how busy the channels are: each pair moves the busiest slot that brings the two closer together.

    A pair moves a slot only if the first is busier than the mean and `imbalance_ratio` times as busy as the second,
    and the second is at most `receiver_limit` busy and would not exceed 1. The first pair that fails ends the round.
    Where idle times are not measured, a channel is as busy as its load compared with the highest. Section 4.2 of Flux.

    Parameters
    ----------
    receiver_limit
        Busy share above which a channel takes nothing.

    Examples
    --------
    >>> from unskew.load import ChannelUse
    >>> from unskew.planners import Memory, Problem
    >>> use = ChannelUse(window_seconds=1.0, idle_seconds=[0.0, 0.6])
    >>> slots = Problem.of_keys([40, 30, 20, 40], channels=2, current=[0, 0, 0, 1], home=[0, 0, 0, 1], use=use)
    >>> FluxLoad().assign(slots, Memory()).owner.tolist()
    [1, 0, 0, 1]
    """

    name: ClassVar[str] = "flux-load"
    summary: ClassVar[str] = "Flux: busiest and idlest channel pair up, one slot per pair and round"

    receiver_limit: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        limit = self.receiver_limit
        check(0 < limit <= 1, "receiver_limit must be above 0 and at most 1", limit)

    def choose(self, round: Round) -> list[Move]:
        return moves_by_load(round, self.imbalance_ratio, self.receiver_limit)


@dataclass(frozen=True, kw_only=True)
class FluxMemory(FluxPlanner):
    """Evens out the memory left: each pair moves the largest slot that brings the two closer, resident ones first.

    A pair moves a slot only if the first has less memory left than the mean and uses `imbalance_ratio` times as large
    a part of its own as the second, or holds more than it has memory for while the slot fits into what the second has
    left. The first pair that fails ends the round. All state of a channel counts, in memory or on disk, so slots on
    disk are shared evenly even when memory runs out everywhere. Where budgets are not known, all channels have the
    same. Section 5 of Flux.

    Examples
    --------
    >>> from unskew.load import ChannelUse
    >>> from unskew.planners import Memory, Problem
    >>> use = ChannelUse(window_seconds=1.0, memory_bytes=[50, 100], spilled=[True, False, False])
    >>> slots = Problem.of_keys([1, 1, 1], channels=2, current=[0, 0, 1], home=[0, 0, 1], state=[40, 30, 20], use=use)
    >>> FluxMemory().assign(slots, Memory()).owner.tolist()
    [0, 1, 1]
    """

    name: ClassVar[str] = "flux-memory"
    summary: ClassVar[str] = "Flux: the channel with the least memory left gives a slot to the one with the most"

    def choose(self, round: Round) -> list[Move]:
        return moves_by_memory(round, self.imbalance_ratio)


@dataclass(frozen=True, kw_only=True)
class FluxHybrid(FluxLoad):
    """A round of `FluxMemory` while any channel spills, otherwise one of `FluxLoad` that respects memory.

    A round by load moves only slots that fit into what the receiver has left, and pairs nobody with a channel that has
    no room for any. Section 5.2 of Flux.

    Examples
    --------
    >>> from unskew.load import ChannelUse
    >>> from unskew.planners import Memory, Problem
    >>> use = ChannelUse(window_seconds=1.0, idle_seconds=[0.0, 0.6], memory_bytes=[100, 70])
    >>> state, owners = [50, 20, 10, 30], [0, 0, 0, 1]
    >>> slots = Problem.of_keys([40, 30, 20, 40], channels=2, current=owners, home=owners, state=state, use=use)
    >>> FluxHybrid().assign(slots, Memory()).owner.tolist()
    [0, 1, 0, 1]
    """

    name: ClassVar[str] = "flux-hybrid"
    summary: ClassVar[str] = "Flux: slots move by memory while any lies on disk, by load otherwise"

    def choose(self, round: Round) -> list[Move]:
        if round.spilled.any():
            return moves_by_memory(round, self.imbalance_ratio)
        return moves_by_load(round, self.imbalance_ratio, self.receiver_limit, fit_memory=True)


def moves_by_load(round: Round, imbalance_ratio: float, receiver_limit: float, fit_memory: bool = False) -> list[Move]:
    """Return the moves of a round by load; with `fit_memory`, only slots that fit into what the receiver has left.

    Then a channel without room for any slot is no receiver. It may well be the idlest, having given its slots away for
    lack of memory, and would be paired with the busiest for ever.
    """
    busy, tuples = round.utilisation, round.tuples
    mean, total = float(busy.mean()), float(round.channel_tuples.sum())
    some = tuples > 0
    room = round.excess_bytes >= round.state_bytes[some].min(initial=np.inf) if fit_memory and some.any() else None
    moves: list[Move] = []
    for donor, receiver in pairs_from_the_ends(np.argsort(-busy, kind="stable"), room):
        gap, least = busy[donor] - busy[receiver], max(float(busy[receiver]), TINY)
        if busy[donor] < mean or busy[donor] < imbalance_ratio * least or busy[receiver] > receiver_limit:
            break
        held = round.channel_tuples[receiver]
        per_tuple = busy[receiver] / held if held > 0 else busy.sum() / max(total, TINY)
        slots = round.slots_of(donor, -tuples)
        donor_after = busy[donor] * (1 - tuples[slots] / max(round.channel_tuples[donor], TINY))
        receiver_after = busy[receiver] + per_tuple * tuples[slots]
        good = (tuples[slots] > 0) & (receiver_after <= 1) & (np.abs(donor_after - receiver_after) < gap)
        if fit_memory:
            good &= round.state_bytes[slots] <= round.excess_bytes[receiver]
        moves += [(slot, receiver) for slot in slots[good][:1].tolist()]
    return moves


def moves_by_memory(round: Round, imbalance_ratio: float) -> list[Move]:
    """Return the moves of a round by memory."""
    used, size = round.used_bytes, round.state_bytes
    fair = max(float(used.mean()), 1.0)
    memory = np.where(np.isfinite(round.memory_bytes), np.maximum(round.memory_bytes, 1.0), fair)
    left, pressure = memory - used, used / memory
    moves: list[Move] = []
    for donor, receiver in pairs_from_the_ends(np.argsort(left, kind="stable")):
        uneven = pressure[donor] >= imbalance_ratio * pressure[receiver]
        if left[donor] >= left.mean() or not (uneven or left[donor] < 0):
            break
        slots = round.slots_of(donor, round.spilled, -size)
        gap = left[receiver] - left[donor]
        good = (size[slots] > 0) & (np.abs(gap - 2 * size[slots]) < gap)
        if not uneven:  # the ratio alone would leave the last few slots on disk although there is room for them
            good &= size[slots] <= left[receiver]
        moves += [(slot, receiver) for slot in slots[good][:1].tolist()]
    return moves
