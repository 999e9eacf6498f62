"""What is simulated: the machines, the data, what disturbs them, and who balances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.load.statistics import add_up
from unskew.planners.base import Planner
from unskew.workloads.eighty_twenty import SelfSimilar, TwoClass

Routing = Literal["flux", "exchange", "river"]
Data = Literal["uniform", "self-similar", "two-class"]

TUPLE_BYTES = 80
LOADED_CAPACITY = 0.43  # what an external load leaves of a machine: alone it costs an instance 57 %


@dataclass(frozen=True)
class Slowdown:
    """From `start_seconds` to `end_seconds`, a site has this share of its CPU."""

    site: int
    start_seconds: float
    end_seconds: float = float("inf")
    capacity: float = LOADED_CAPACITY


@dataclass(frozen=True)
class MemoryChange:
    """From `start_seconds` on, a site has this much memory for state."""

    site: int
    start_seconds: float
    memory_bytes: float = 512e6


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One run. The defaults are those of Flux's experiments on CPU load.

    >>> Setup(nodes=4).partitions, Setup(routing="exchange", nodes=4, pool_tuples=400).connection_tuples
    (256, 124)
    """

    # "flux": a pool per producer and partitions that can move. "exchange": fixed sites and a queue to each, between
    # which the pool's space is shared out. "river": a site drawn at random by how empty its queue is.
    routing: Routing = "flux"
    # nodes, partitions_per_node: sites, each with a producer and a consumer; slots per site at the start
    nodes: int = 32
    partitions_per_node: int = 64
    seconds: float = 60.0  # simulated time
    pool_tuples: int = 2048  # space of each producer: the transient skew buffer
    queue_tuples: int = 24  # tuples that a connection holds: two packets
    data: Data = "uniform"  # how the 16,384 groups weigh, and with them the partitions
    groups: int = 16_384
    planner: Planner | None = None  # who moves partitions, None for nobody
    shortest_collection_seconds: float = 0.010  # how long a round collects at least
    # slowdowns, memory_changes: what happens to single sites, and when
    slowdowns: tuple[Slowdown, ...] = ()
    memory_changes: tuple[MemoryChange, ...] = ()
    # memory_bytes, state_tuples: memory of each site, and tuples of state of each partition
    memory_bytes: float = 1e9
    state_tuples: int = 10_000
    source_rate: float | None = None  # tuples per second that each producer has to give; None for as many as it can get
    # tuple_seconds, deviation_seconds, get_next_seconds, marshal_seconds: CPU time: to process a tuple, its standard
    # deviation, to produce one, to pack or unpack one of state
    tuple_seconds: float = 45e-6
    deviation_seconds: float = 3e-6
    get_next_seconds: float = 0.5e-6
    marshal_seconds: float = 0.2e-6
    latency_seconds: float = 70e-6  # of a control message
    # transfer_bits_per_second, cross_section_bits_per_second: state transfer between two sites, and of all together
    transfer_bits_per_second: float = 250e6
    cross_section_bits_per_second: float = 500e6
    # disk_bytes_per_second, seek_seconds, seek_deviation_seconds: the disk
    disk_bytes_per_second: float = 20e6
    seek_seconds: float = 5e-3
    seek_deviation_seconds: float = 0.2e-3
    rotation_seconds: float = 0.15  # how long a site that spills serves live input between two swaps
    tick_seconds: float = 0.5e-3  # step of the simulation
    seed: int = 0  # of everything random

    def __post_init__(self) -> None:
        for name, low in (("nodes", 1), ("partitions_per_node", 1), ("queue_tuples", 1), ("pool_tuples", 0)):
            if getattr(self, name) < low:
                raise ArgumentError(f"{name} must be at least {low}", got=getattr(self, name))
        for name in ("seconds", "tick_seconds", "tuple_seconds", "get_next_seconds", "shortest_collection_seconds"):
            if not getattr(self, name) > 0:
                raise ArgumentError(f"{name} must be above 0", got=getattr(self, name))
        for name, choices in (("routing", get_args(Routing)), ("data", get_args(Data))):
            if getattr(self, name) not in choices:
                raise ArgumentError(
                    f"there is no {name} of that name", got=getattr(self, name), hint=f"one of {', '.join(choices)}"
                )
        if self.planner is not None and self.routing != "flux":
            raise ArgumentError("only flux can move partitions", got=self.routing, hint="leave the planner out")
        for site in (*(slow.site for slow in self.slowdowns), *(change.site for change in self.memory_changes)):
            if not 0 <= site < self.nodes:
                raise ArgumentError(f"site {site} is not in 0..{self.nodes - 1}")

    @property
    def partitions(self) -> int:
        """Partitions of all sites; RiverDQ knows sites only."""
        return self.nodes * (1 if self.routing == "river" else self.partitions_per_node)

    @property
    def held_tuples(self) -> int:
        """Tuples that a producer holds: its pool, or the one in its hand."""
        return max(1, self.pool_tuples) if self.routing == "flux" else 1

    @property
    def connection_tuples(self) -> int:
        """Tuples that a connection holds; with Exchange and RiverDQ, its part of the pool's space included."""
        return self.queue_tuples + (0 if self.routing == "flux" else self.pool_tuples // self.nodes)

    @property
    def state_bytes(self) -> float:
        return float(self.state_tuples * TUPLE_BYTES)

    def weights(self) -> NDArray[np.float64]:
        """Return the share of the tuples that each partition gets; groups are shuffled over the partitions."""
        if self.data == "uniform" or self.routing == "river":
            return np.full(self.partitions, 1 / self.partitions)
        law = (SelfSimilar if self.data == "self-similar" else TwoClass)(key_count=self.groups, seed=self.seed)
        return add_up(law.probabilities(), np.arange(self.groups) % self.partitions, self.partitions)
