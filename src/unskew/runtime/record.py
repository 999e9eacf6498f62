"""The record of a batch: all that the next batch, a replay or a reader has to know."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
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
    """Where a channel's state lies, and how much it is.

    Parameters
    ----------
    manifest, files
        The piece with the manifest, and all files that the state consists of.
    rows, bytes
        Keys held, and their size.
    earliest
        No key has a deadline before this; None if no key has one.
    """

    manifest: Piece
    files: tuple[str, ...]
    rows: int
    bytes: int
    earliest: int | None = None


@dataclass(frozen=True)
class Output:
    """A batch's output rows: packed in the record, or in pieces of files."""

    inline: tuple[bytes, ...] = ()
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True, eq=False)
class Record:
    """What became of a batch, fixed once and for all before its sink sees a row.

    Parameters
    ----------
    batch_id, fingerprint, epoch
        The batch, what Spark planned for it, and which start of the query ran it.
    identity, columns
        The query, and the columns of its state: a table without rows.
    watermark_ms
        The watermark that the batch had; None without event time.
    table
        The table that it was routed by.
    channels
        The channels that have state.
    wish
        How many channels there shall be.
    output
        Its rows.
    memory, costs, held, intervals
        What the planner remembers, what rows cost, how much state there is, and what past intervals had.
    learned
        What a `Learner` knows.
    memory_bytes
        State that each channel may hold.
    rows
        Rows of the last batch that had any.
    figures
        The batch in figures, for people, as JSON; see `unskew.runtime.figures.BatchFigures`.
    """

    batch_id: int
    fingerprint: str
    epoch: int
    identity: Identity
    columns: pa.Table
    watermark_ms: int | None
    table: RoutingTable
    channels: dict[int, ChannelState]
    wish: int
    held: Held
    output: Output = field(default_factory=Output)
    memory: Memory = field(default_factory=Memory)
    costs: Costs = field(default_factory=Costs)
    intervals: Intervals = field(default_factory=Intervals)
    learned: bytes = b""
    memory_bytes: tuple[int, ...] = ()
    rows: int = 0
    figures: str = ""
    format: int = FORMAT

    @property
    def earliest(self) -> int | None:
        """The next deadline of any key."""
        return min((c.earliest for c in self.channels.values() if c.earliest is not None), default=None)

    @classmethod
    def before_the_first(
        cls,
        identity: Identity,
        channels: int,
        memory_bytes: tuple[int, ...],
        watermark_ms: int | None,
        columns: pa.Table,
    ) -> Record:
        """Return what holds before batch 0."""
        table = RoutingTable.initial(channels, identity.slots)
        held = Held(np.zeros(identity.slots))
        return cls(-1, "", 0, identity, columns, watermark_ms, table, {}, channels, held, memory_bytes=memory_bytes)
