"""Two racers on the same stream: their batches, their figures, and whether they counted the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from unskew_lab.demo.batch import Batch

Racer = Literal["hash", "unskew"]

RACERS: tuple[Racer, Racer] = ("hash", "unskew")
NAMES: dict[Racer, str] = {"hash": "Spark's hash", "unskew": "unskew"}
WARM_UP_BATCHES = 1  # Python workers start in it


@dataclass(frozen=True)
class Figures:
    """One racer's batches summed up.

    >>> batches = [Batch(number, 2.0, (600, 200), (1.8, 0.6), moves=number) for number in range(3)]
    >>> figures = Figures.of(batches)
    >>> figures.rows_per_second, figures.p50_seconds, figures.mean_imbalance, figures.moves
    (400.0, 2.0, 1.5, 2)
    """

    batches: int
    rows: int
    seconds: float
    rows_per_second: float
    p50_seconds: float
    p99_seconds: float
    mean_imbalance: float
    worst_imbalance: float
    mean_hash_imbalance: float | None
    moves: int

    @classmethod
    def of(cls, batches: Sequence[Batch]) -> Figures:
        """Sum up `batches`; there must be one at least."""
        times = [batch.seconds for batch in batches]
        imbalances = [batch.imbalance for batch in batches]
        by_hash = [batch.hash_imbalance for batch in batches if batch.hash_imbalance is not None]
        rows = sum(batch.rows for batch in batches)
        return cls(
            batches=len(batches),
            rows=rows,
            seconds=sum(times),
            rows_per_second=rows / max(sum(times), 1e-9),
            p50_seconds=float(np.percentile(times, 50)),
            p99_seconds=float(np.percentile(times, 99)),
            mean_imbalance=float(np.mean(imbalances)),
            worst_imbalance=max(imbalances),
            mean_hash_imbalance=float(np.mean(by_hash)) if by_hash else None,
            moves=batches[-1].moves,
        )


@dataclass(frozen=True)
class Migration:
    """A hot key that another channel counts than in the batch before, and its count before and after.

    >>> str(Migration("user-7", 5, source=1, target=6, total_before=1200, total_after=2600))
    'batch  5: user-7 went from channel 1 to 6 and took its count along: 1,200, then 2,600'
    """

    key: str
    batch: int
    source: int
    target: int
    total_before: int
    total_after: int

    def __str__(self) -> str:
        return (
            f"batch {self.batch:>2}: {self.key} went from channel {self.source} to {self.target} and took its count "
            f"along: {self.total_before:,}, then {self.total_after:,}"
        )


@dataclass(frozen=True)
class Race:
    """The batches that each racer has ended so far, in order.

    Figures are over batches that both have ended, so that they speak of the same rows, and leave the first one out.

    >>> race = Race()
    >>> for number in range(4):
    ...     race.add("hash", Batch(number, 3.0, (600, 200), (1.8, 0.6), totals={"a": 800}))
    ...     race.add("unskew", Batch(number, 2.0, (400, 400), (1.2, 1.2), totals={"a": 800}, moves=1))
    >>> race.figures("hash").batches, race.speedup, race.same_result
    (3, 1.5, True)
    """

    batches: dict[Racer, list[Batch]] = field(default_factory=lambda: {racer: [] for racer in RACERS})

    def add(self, racer: Racer, batch: Batch) -> None:
        self.batches[racer].append(batch)

    @property
    def common(self) -> int:
        return min(map(len, self.batches.values()))

    def figures(self, racer: Racer) -> Figures:
        """Return a racer's figures; both must have ended a batch."""
        ended = self.batches[racer][: self.common]
        return Figures.of(ended[WARM_UP_BATCHES:] or ended[-1:])

    @property
    def speedup(self) -> float:
        """Throughput under unskew, under Spark's hash being 1."""
        return self.figures("unskew").rows_per_second / self.figures("hash").rows_per_second

    def migrations(self, racer: Racer, number: int) -> list[Migration]:
        """Return the hot keys that another channel counts in batch `number` than in the one before, hottest first."""
        if number < 1:
            return []
        before = {key.name: key for key in self.batches[racer][number - 1].hot_keys}
        return [
            Migration(key.name, number, before[key.name].channel, key.channel, before[key.name].total, key.total)
            for key in self.batches[racer][number].hot_keys
            if key.name in before and before[key.name].channel != key.channel
        ]

    def counts(self, racer: Racer) -> dict[str, int]:
        """Return every key's last count in the batches that both have ended."""
        return {key: n for batch in self.batches[racer][: self.common] for key, n in batch.totals.items()}

    @property
    def same_result(self) -> bool:
        """Whether both gave the same running counts in every batch that both have ended."""
        theirs, ours = (self.batches[racer][: self.common] for racer in RACERS)
        return [batch.totals for batch in theirs] == [batch.totals for batch in ours]
