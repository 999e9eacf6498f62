"""What is known of one batch of one racer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from unskew.load.metrics import skewness


@dataclass(frozen=True)
class HotKey:
    """One of the heaviest keys of a batch: its rows, its channel, and its count so far."""

    name: str
    rows: int
    channel: int
    total: int = 0


@dataclass(frozen=True)
class Batch:
    """Rows and operator seconds of every channel in one batch, and what came out of it.

    >>> batch = Batch(3, 2.5, (600, 200), (1.8, 0.6), (HotKey("user-7", 400, 0),))
    >>> batch.rows, batch.fullest, batch.imbalance
    (800, 0, 1.5)
    """

    number: int  # the batch, from 0
    seconds: float  # what Spark says that it took, from looking for new rows to the commit
    # channel_rows, channel_seconds: rows of each channel, and seconds in the operator
    channel_rows: tuple[int, ...]
    channel_seconds: tuple[float, ...]
    hot_keys: tuple[HotKey, ...] = ()  # the hottest keys, hottest first
    # what came out: the running count of every key that had rows
    totals: Mapping[str, int] = field(default_factory=dict)
    moves: int = 0  # keys and slots that have changed their channel since the start
    # hash_imbalance, hash_seconds: of a batch under unskew: the imbalance that Spark's hash would have given for the
    # same rows, by what they cost, and the work of its fullest partition in seconds
    hash_imbalance: float | None = None
    hash_seconds: float | None = None

    @property
    def rows(self) -> int:
        return sum(self.channel_rows)

    @property
    def fullest(self) -> int:
        return self.channel_rows.index(max(self.channel_rows))

    @property
    def imbalance(self) -> float:
        """Rows of the fullest channel, the mean being 1."""
        return skewness(self.channel_rows)

    def as_dict(self) -> dict[str, object]:
        return {
            "number": self.number,
            "rows": self.rows,
            "seconds": self.seconds,
            "imbalance": self.imbalance,
            "hash_imbalance": self.hash_imbalance,
            "hash_seconds": self.hash_seconds,
            "moves": self.moves,
            "channel_rows": self.channel_rows,
            "channel_seconds": self.channel_seconds,
            "hot_keys": [asdict(key) for key in self.hot_keys],
        }
