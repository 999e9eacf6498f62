"""flux-load: the busiest channel gives a slot to the idlest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.errors import ArgumentError
from unskew.planners.flux.base import FluxPlanner
from unskew.planners.flux.round import Round, first_true, pairs_from_the_ends

TINY = 1e-9


@dataclass(frozen=True, kw_only=True)
class FluxLoad(FluxPlanner):
    """Evens out how busy the channels are: per pair, the busiest slot that brings the two closer together.

    A pair moves a slot only if the first is busier than the mean and `imbalance_ratio` times as busy as the second,
    and the second is at most `receiver_limit` busy and would not exceed 1. The first pair that fails ends the round.
    Where idle times are not measured, a channel is as busy as its load compared with the highest.

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

    References
    ----------
    Shah et al., "Flux: An Adaptive Partitioning Operator for Continuous Query Systems", ICDE 2003, section 4.2.
    """

    name: ClassVar[str] = "flux-load"
    summary: ClassVar[str] = "Flux: busiest and idlest channel pair up, one slot per pair and round"

    receiver_limit: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.receiver_limit <= 1:
            raise ArgumentError("receiver_limit must be above 0 and at most 1", got=self.receiver_limit)

    def choose(self, round: Round) -> list[tuple[int, int]]:
        """Return the slots to move in this round, each with its new channel."""
        return moves_by_load(round, self.imbalance_ratio, self.receiver_limit)


def moves_by_load(
    round: Round, imbalance_ratio: float, receiver_limit: float, fit_memory: bool = False
) -> list[tuple[int, int]]:
    """Return the moves of a round by load; with `fit_memory`, only slots that fit into what the receiver has left.

    A channel that has no room for any slot is then left out as a receiver: it may well be the idlest, having given its
    slots away for lack of memory, and would be paired with the busiest for ever.
    """
    busy, tuples = round.utilisation, round.tuples
    mean, total = float(busy.mean()), float(round.channel_tuples.sum())
    some = tuples > 0
    room = round.excess_bytes >= round.state_bytes[some].min(initial=np.inf) if fit_memory and some.any() else None
    moves: list[tuple[int, int]] = []
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
        place = first_true(good)
        if place is not None:
            moves.append((int(slots[place]), receiver))
    return moves
