"""A topic under load: its partitions, its consumers, and the messages that arrive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.hashing import kafka_hashes
from unskew.workloads.power_law import power_law


@dataclass(frozen=True, kw_only=True)
class Topic:
    """Messages that arrive at random for keys under SMALOPS' law, and a consumer per partition.

    >>> topic = Topic(partitions=4, utilisation=0.8, seconds=0.5, key_count=1000)
    >>> topic.messages_per_second
    64000.0
    >>> arrivals = topic.arrivals()
    >>> len(arrivals.seconds), arrivals.keys[:5].tolist()
    (32000, [50, 119, 709, 561, 4])

    References
    ----------
    Bhattacharya and Wood, "Load Balancing and Generalized Split State Reconciliation in Event Driven Systems",
    section III.
    """

    partitions: int = 12  # partitions of the topic, each with a consumer of its own
    message_seconds: float = 50e-6  # time a consumer takes for a message
    # busy share of the consumers if all had the same load; with the two above it makes the rate of arrivals
    utilisation: float = 0.85
    seconds: float = 40.0  # length of the run
    # key_count, exponent, offset: rank k of the keys is proportional to (offset + k) ** -exponent
    key_count: int = 1_000_000
    exponent: float = 1.1
    offset: float = 2.72
    # shift, shift_seconds: how many places all keys shift, and how often: the rank k of minute m is key k + shift * m
    shift: int = 0
    shift_seconds: float = 60.0
    # messages that arrive at the same instant, on average; 1 for a Poisson process. Sizes are geometric.
    burst: float = 1.0
    seed: int = 0  # of everything random

    def __post_init__(self) -> None:
        for name in ("partitions", "message_seconds", "utilisation", "seconds", "key_count", "shift_seconds"):
            if not getattr(self, name) > 0:
                raise ArgumentError(f"{name} must be above 0", got=getattr(self, name))
        if not self.burst >= 1:
            raise ArgumentError("a burst has at least one message", got=self.burst)

    @property
    def messages_per_second(self) -> float:
        return round(self.utilisation * self.partitions / self.message_seconds, 6)

    def arrivals(self) -> Arrivals:
        """Draw the messages of the run: 24 bytes each."""
        rng = np.random.default_rng([self.seed, 4])
        count = int(self.messages_per_second * self.seconds)
        sizes = np.ones(count, np.int64)
        if self.burst > 1:
            sizes = rng.geometric(1 / self.burst, int(count / self.burst) + 1)
        instants = np.cumsum(rng.exponential(self.burst / self.messages_per_second, len(sizes)))
        seconds = np.repeat(instants, sizes) if self.burst > 1 else instants
        ranks = power_law(self.exponent, self.key_count, self.offset).quantile(rng.random(len(seconds)))
        if self.shift:
            ranks += self.shift * (seconds // self.shift_seconds).astype(np.int64)
            ranks %= self.key_count
        return Arrivals(seconds, ranks)

    def hashes(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the 64-bit hash of every key that occurs, by key, with Kafka's partition as its remainder.

        Keys are written as decimal numbers, from ``seed * key_count`` on: another seed, other partitions. Entries of
        keys that do not occur are 0.
        """
        occurs = np.zeros(self.key_count, bool)
        occurs[keys] = True
        present = np.flatnonzero(occurs)
        hashes = np.zeros(self.key_count, np.int64)
        names = pa.array(present + self.seed * self.key_count).cast(pa.string())
        hashes[present] = kafka_hashes(names, self.partitions)
        return hashes


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Messages in the order of their arrival."""

    seconds: NDArray[np.float64]  # when each arrives
    keys: NDArray[np.int64]  # its key, a number from 0 on
