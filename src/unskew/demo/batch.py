"""What is known of one batch, and of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unskew.load.metrics import overload


@dataclass(frozen=True)
class HotKey:
    """One of the heaviest keys of a batch: its rows, its channel, and the seconds spent on it."""

    name: str
    rows: int
    channel: int
    seconds: float


@dataclass(frozen=True)
class Batch:
    """Rows and operator seconds of every channel in one batch, and the hottest keys, hottest first.

    Examples
    --------
    >>> batch = Batch(3, 2.5, (600, 200), (1.8, 0.6), (HotKey("user-7", 400, 0, 1.2),))
    >>> batch.rows, batch.fullest, batch.imbalance
    (800, 0, 0.5)
    >>> round(batch.balanced_seconds, 3)  # the mean of 1.8 and 0.6 on the fullest channel, the rest as it is
    1.9
    """

    number: int
    seconds: float
    channel_rows: tuple[int, ...]
    channel_seconds: tuple[float, ...]
    hot_keys: tuple[HotKey, ...]

    @property
    def rows(self) -> int:
        """Rows of the batch."""
        return sum(self.channel_rows)

    @property
    def fullest(self) -> int:
        """The channel with the most rows."""
        return self.channel_rows.index(max(self.channel_rows))

    @property
    def imbalance(self) -> float:
        """How far the fullest channel lies above the mean: max/mean - 1."""
        return overload(self.channel_rows)

    @property
    def balanced_seconds(self) -> float:
        """How long the batch would have taken with its work spread as evenly as whole keys allow.

        The operator's part of a batch lasts as long as its slowest channel. Balanced, that would be the mean of all
        channels, or the hottest key alone if it is heavier; everything else stays as measured.
        """
        mean = sum(self.channel_seconds) / len(self.channel_seconds)
        hottest = max((key.seconds for key in self.hot_keys), default=0.0)
        return self.seconds - max(self.channel_seconds) + max(mean, hottest)

    def as_dict(self) -> dict[str, object]:
        """Return everything, for JSON."""
        return {
            "number": self.number,
            "rows": self.rows,
            "seconds": self.seconds,
            "balanced_seconds": self.balanced_seconds,
            "imbalance": self.imbalance,
            "channel_rows": self.channel_rows,
            "channel_seconds": self.channel_seconds,
            "hot_keys": self.hot_keys,
        }


@dataclass(frozen=True)
class Summary:
    """All batches but the first, in which Python workers start and code is compiled."""

    batches: int
    rows: int
    seconds: float
    balanced_seconds: float
    mean_imbalance: float
    worst_imbalance: float

    @classmethod
    def of(cls, batches: Sequence[Batch]) -> Summary:
        """Sum up `batches`; the only one there is, if there is but one."""
        counted = batches[1:] or batches
        imbalances = [batch.imbalance for batch in counted]
        return cls(
            batches=len(counted),
            rows=sum(batch.rows for batch in counted),
            seconds=sum(batch.seconds for batch in counted),
            balanced_seconds=sum(batch.balanced_seconds for batch in counted),
            mean_imbalance=sum(imbalances) / max(len(imbalances), 1),
            worst_imbalance=max(imbalances, default=0.0),
        )

    @property
    def share_saved(self) -> float:
        """Which part of the time balance would have saved."""
        return 1 - self.balanced_seconds / self.seconds if self.seconds else 0.0
