"""What the demonstration runs."""

from __future__ import annotations

from dataclasses import dataclass

from unskew.errors import ArgumentError


@dataclass(frozen=True)
class Settings:
    """A drifting Zipf stream and the stateful count that it goes through.

    >>> Settings(channels=0)
    Traceback (most recent call last):
    unskew.errors.ArgumentError: channels must be above 0, got 0.
    """

    batches: int = 12  # the race ends after so many
    rows: int = 10_000  # rows per batch
    channels: int = 8  # channels of unskew and state partitions of Spark, one core each: this machine plays that many
    # keys, exponent, seed: the Zipf law. Chosen such that the hottest key alone has about what a balanced channel would
    # have.
    keys: int = 1_000
    exponent: float = 1.0
    seed: int = 0
    # batches_per_shift, shift: after so many batches all ids shift by so many places, and other keys are the hot ones.
    # How badly they meet in a channel is luck: of all shifts this one has average luck under Spark's hash.
    batches_per_shift: int = 6
    shift: int = 423
    most_seconds: float = 105.0  # the race also ends when so much time has passed since both have ended a batch
    # what a row costs the operator. It is spent waiting, as for a remote service, so that two cores can play eight.
    microseconds_per_row: float = 2000.0

    def __post_init__(self) -> None:
        for name in ("batches", "rows", "channels", "keys", "batches_per_shift"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name} must be above 0", got=getattr(self, name))

    @property
    def cost(self) -> str:
        return (
            f"a row costs {self.microseconds_per_row / 1000:g} ms, spent waiting as for a remote service, "
            f"so that this machine can play {self.channels}"
        )
