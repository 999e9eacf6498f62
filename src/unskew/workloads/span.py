"""Where rows stand in a stream, and the random numbers that belong to each place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ArgumentError

KEYS, VALUES, EXTRA, DRIFT = 0, 1, 2, 8  # streams of random numbers; wrappers count upwards from DRIFT


@dataclass(frozen=True)
class Span:
    """Rows `start` to `stop` of an interval that has `rows` rows.

    Every row owns one random number per stream, reached in O(1) by advancing the generator. So a row is the same
    whether you ask for it alone, in a partition or with the whole interval.

    Examples
    --------
    >>> whole = Span(interval=3, rows=10, start=0, stop=10)
    >>> second = Span.partition(interval=3, rows=10, partition=1, partitions=2)
    >>> second
    Span(interval=3, rows=10, start=5, stop=10)
    >>> bool((whole.uniforms(seed=0, stream=KEYS)[5:] == second.uniforms(seed=0, stream=KEYS)).all())
    True
    """

    interval: int
    rows: int
    start: int
    stop: int

    @classmethod
    def partition(cls, interval: int, rows: int, partition: int = 0, partitions: int = 1) -> Span:
        """Return the `partition`-th of `partitions` equal shares of an interval; validates all four numbers."""
        for name, value in {"interval": interval, "rows": rows}.items():
            if value < 0:
                raise ArgumentError(f"{name} must not be negative", got=value)
        if not 0 <= partition < partitions:
            raise ArgumentError(f"partition {partition} is not in 0..{partitions - 1}", hint="count partitions from 0")
        return cls(interval, rows, rows * partition // partitions, rows * (partition + 1) // partitions)

    def __len__(self) -> int:
        return self.stop - self.start

    def chunks(self, most_rows: int) -> Iterator[Span]:
        """Cut the span into consecutive ones of at most `most_rows` rows."""
        for start in range(self.start, self.stop, most_rows):
            yield Span(self.interval, self.rows, start, min(start + most_rows, self.stop))

    def positions(self) -> NDArray[np.int64]:
        return np.arange(self.start, self.stop, dtype=np.int64)

    def sequence(self) -> NDArray[np.int64]:
        """Return the place of each row within the stream, as if every interval had as many rows as this one."""
        return self.interval * self.rows + self.positions()

    def uniforms(self, seed: int, stream: int) -> NDArray[np.float64]:
        return uniforms(seed, self.interval, stream, len(self), skip=self.start)


def uniforms(seed: int, interval: int, stream: int, count: int, skip: int = 0) -> NDArray[np.float64]:
    """Return numbers `skip` to ``skip + count`` of the stream that belongs to (seed, interval).

    It uses only ``random()`` of PCG64, 53 bits of one raw draw each, which is equal on every machine.
    """
    bits = np.random.PCG64(np.random.SeedSequence((seed, interval), spawn_key=(stream,)))
    return np.random.Generator(bits.advance(skip)).random(count)
