"""How a query is balanced: one value, in groups, passed as it is to whoever needs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from unskew.planners.base import Planner
from unskew.routing.table import DEFAULT_SLOTS
from unskew.splitters.base import Splitter

When = Literal["own", "ahead"]


@dataclass(frozen=True)
class Channels:
    """How many channels and slots there are."""

    count: int
    auto: bool = False  # the number of channels follows the load, so that a batch takes less than `trigger_seconds`
    slots: int = DEFAULT_SLOTS
    trigger_seconds: float = 0.0


@dataclass(frozen=True)
class Planning:
    """Who plans, when, and what a plan may cost.

    ``when="own"`` counts a batch and plans it by its own counts; ``"ahead"`` plans by the intervals before it.
    """

    planner: Planner
    when: When = "own"
    interval_batches: int = 1  # "ahead": an interval has at least so many batches ...
    interval_ms: int = 0  # ... and takes at least so long
    window: int = 1  # "ahead": how many of the last intervals a plan goes by
    max_move_bytes: int = 64 << 20  # a larger migration spreads over several batches, largest gain per byte first
    min_gain: float = 0.01  # share of the mean by which a plan must relieve the fullest channel to be carried out
    tracked_keys: int | None = 2000  # keys that each partition and channel counts one by one; None: all of them
    presum: bool = False  # Spark combines rows where it can; one row per key is left, so no plan is needed


@dataclass(frozen=True)
class Splitting:
    """Whether several channels share a key; for operators that can merge."""

    auto: bool = False  # keys that no channel can carry alone are shared by all; they fill up what whole keys leave
    scheme: Splitter | None = None  # routes all rows; nothing is planned then, except another number of channels

    @property
    def by_tuple(self) -> bool:
        """Whether each row is routed on its own, so that rows may be combined only afterwards."""
        return self.auto or self.scheme is not None


@dataclass(frozen=True)
class Keeping:
    """What is kept, and where."""

    cache_bytes: int = 1 << 30  # budget of each machine's local copies of state
    memory_bytes: tuple[int, ...] = ()  # state each channel may hold in its local copy; see `memory_budgets`
    records: int = 10  # batches whose records are retained; `unskew.read_state` and a restart need the last one
    inline_bytes: int = 4 << 20  # larger output is written to files instead of the record


@dataclass(frozen=True)
class Settings:
    """All of it."""

    channels: Channels
    planning: Planning
    splitting: Splitting = field(default_factory=Splitting)
    keeping: Keeping = field(default_factory=Keeping)
