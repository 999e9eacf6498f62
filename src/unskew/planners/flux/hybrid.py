"""flux-hybrid: by memory while any slot lies on disk, by load otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.planners.flux.load import FluxLoad, moves_by_load
from unskew.planners.flux.memory import moves_by_memory
from unskew.planners.flux.round import Round


@dataclass(frozen=True, kw_only=True)
class FluxHybrid(FluxLoad):
    """A round of `FluxMemory` while any channel spills, otherwise one of `FluxLoad` that respects memory.

    A round by load moves only slots that fit into what the receiver has left, and pairs nobody with a channel that has
    no room for any.

    Examples
    --------
    >>> from unskew.load import ChannelUse
    >>> from unskew.planners import Memory, Problem
    >>> use = ChannelUse(window_seconds=1.0, idle_seconds=[0.0, 0.6], memory_bytes=[100, 70])
    >>> state, owners = [50, 20, 10, 30], [0, 0, 0, 1]
    >>> slots = Problem.of_keys([40, 30, 20, 40], channels=2, current=owners, home=owners, state=state, use=use)
    >>> FluxHybrid().assign(slots, Memory()).owner.tolist()
    [0, 1, 0, 1]

    References
    ----------
    Shah et al., "Flux: An Adaptive Partitioning Operator for Continuous Query Systems", ICDE 2003, section 5.2.
    """

    name: ClassVar[str] = "flux-hybrid"
    summary: ClassVar[str] = "Flux: slots move by memory while any lies on disk, by load otherwise"

    def choose(self, round: Round) -> list[tuple[int, int]]:
        """Return the slots to move in this round, each with its new channel."""
        if round.spilled.any():
            return moves_by_memory(round, self.imbalance_ratio)
        return moves_by_load(round, self.imbalance_ratio, self.receiver_limit, fit_memory=True)
