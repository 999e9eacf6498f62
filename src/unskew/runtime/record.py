"""The record of a batch: all that the next batch, a replay or a reader has to know."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from unskew.planners.memory import Memory
from unskew.routing.table import RoutingTable
from unskew.runtime.costs import Costs
from unskew.runtime.held import Held
from unskew.runtime.intervals import Intervals
from unskew.state.files import Piece

FORMAT = 2


@dataclass(frozen=True)
class Identity:
    """What must not change between two starts from one checkpoint, and a name that no other query has."""

    key: tuple[str, ...]
    operator: str
    slots: int
    name: str


@dataclass(frozen=True)
class ChannelState:
    """Where a channel's state lies, and how much it is."""

    manifest: Piece
    files: tuple[str, ...]  # all files that the state consists of
    rows: int
    bytes: int
    earliest: int | None = None  # no key has a deadline before this; None if no key has one


@dataclass(frozen=True)
class Output:
    """A batch's output rows: packed in the record, or in pieces of files."""

    inline: tuple[bytes, ...] = ()
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True, eq=False)
class Record:
    """What became of a batch, fixed once and for all before its sink sees a row."""

    batch_id: int
    fingerprint: str  # tells what Spark planned for the batch
    epoch: int  # which start of the query ran it
    identity: Identity
    columns: pa.Table  # the columns of the state, as a table without rows
    watermark_ms: int | None  # None without event time
    table: RoutingTable
    channels: dict[int, ChannelState]  # those that have state
    wish: int  # how many channels there shall be
    held: Held
    output: Output = field(default_factory=Output)
    memory: Memory = field(default_factory=Memory)  # what the planner remembers
    costs: Costs = field(default_factory=Costs)
    intervals: Intervals = field(default_factory=Intervals)
    learned: bytes = b""  # what a `Learner` knows
    memory_bytes: tuple[int, ...] = ()  # see `settings.Keeping`
    rows: int = 0  # of the last batch that had any
    figures: str = ""  # `figures.BatchFigures` as JSON
    format: int = FORMAT

    @property
    def earliest(self) -> int | None:
        """The next deadline of any key."""
        return min((c.earliest for c in self.channels.values() if c.earliest is not None), default=None)
