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
    """How many channels, and slots: ``auto`` lets the number follow the load, `trigger_seconds` is what it keeps to."""

    count: int
    auto: bool = False
    slots: int = DEFAULT_SLOTS
    trigger_seconds: float = 0.0


@dataclass(frozen=True)
class Planning:
    """Who plans, when, and what a plan may cost.

    Parameters
    ----------
    planner
        Who decides which channel owns which key.
    when
        ``"own"`` counts a batch and plans it by its own counts; ``"ahead"`` plans by the intervals before it.
    interval_batches, interval_ms
        Of ``"ahead"``: batches and time that an interval has at least.
    window
        Of ``"ahead"``: the last intervals that a plan goes by.
    max_move_bytes
        State that may move in one batch; a larger migration spreads over several, largest gain per byte first.
    min_gain
        A plan is carried out only if it makes the fullest channel lighter by this share of the mean; planners that
        do not go by the measured cost decide by themselves.
    tracked_keys
        Keys that are counted one by one, by each partition and channel, at most; the rest by slot. None: all.
    presum
        Whether Spark combines the rows of a batch where it can. What is left is one row per key, so no plan is needed.
    """

    planner: Planner
    when: When = "own"
    interval_batches: int = 1
    interval_ms: int = 0
    window: int = 1
    max_move_bytes: int = 64 << 20
    min_gain: float = 0.01
    tracked_keys: int | None = 2000
    presum: bool = False


@dataclass(frozen=True)
class Splitting:
    """Whether keys are shared by several channels; for operators that can merge.

    Parameters
    ----------
    auto
        Keys that no channel can carry alone are shared by all. Their tuples fill up what whole keys leave free.
    scheme
        A splitting scheme that routes all rows; then nothing is planned but another number of channels.
    """

    auto: bool = False
    scheme: Splitter | None = None

    @property
    def by_tuple(self) -> bool:
        """Whether the route of a row is chosen row by row, so that rows may be combined only after it."""
        return self.auto or self.scheme is not None


@dataclass(frozen=True)
class Keeping:
    """What is kept, and where.

    Parameters
    ----------
    cache_bytes
        Budget of each machine's local copies of state.
    memory_bytes
        State that each channel may hold in its local copy; empty: as much as there is room for. The last number
        holds for all channels beyond.
    records
        Records of batches that are retained; `unskew.read_state` and a restart need the last one.
    inline_bytes
        Output of a batch that is kept in its record, at most; more is written to files.
    """

    cache_bytes: int = 1 << 30
    memory_bytes: tuple[int, ...] = ()
    records: int = 10
    inline_bytes: int = 4 << 20


@dataclass(frozen=True)
class Settings:
    """All of it."""

    channels: Channels
    planning: Planning
    splitting: Splitting = field(default_factory=Splitting)
    keeping: Keeping = field(default_factory=Keeping)
