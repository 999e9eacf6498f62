"""What a channel tells the driver at the end of its work."""

from __future__ import annotations

from dataclasses import dataclass, field

from unskew.load.statistics import Statistics
from unskew.state.files import Piece


@dataclass(frozen=True, eq=False)
class ChannelReport:
    """One channel's report of one batch.

    Parameters
    ----------
    channel
        Who reports.
    statistics
        Load of the batch, by key and by slot.
    manifest, files
        Where its state lies now, and the files that it consists of; None and nothing for a channel without state.
    earliest
        No key has a deadline before this; None if no key has one.
    rows, late_rows, keys
        Rows of the batch, those too late to count, and the keys that had rows.
    installed, extracted
        Keys whose state came and went.
    moved_bytes
        Size of the state that came.
    seconds, move_seconds
        Time spent in the operator, and in taking in and giving away state.
    measured
        Whether the cost in `statistics` is seconds; else it is rows.
    state_rows, state_bytes
        What the channel holds after the batch.
    worker_rows
        Under a splitting scheme, the rows that each worker has turned into partial states for this channel.
    spilled_bytes, spilled_slots
        State that the channel's memory has no room for, and the slots that make it up.
    found, place
        What it found of its state (see `unskew.state.recovery.Found`), and where its local copy is now.
    """

    channel: int
    statistics: Statistics
    manifest: Piece | None = None
    files: tuple[str, ...] = ()
    earliest: int | None = None
    rows: int = 0
    late_rows: int = 0
    keys: int = 0
    installed: int = 0
    extracted: int = 0
    moved_bytes: int = 0
    seconds: float = 0.0
    move_seconds: float = 0.0
    measured: bool = False
    state_rows: int = 0
    state_bytes: int = 0
    worker_rows: tuple[int, ...] = ()
    spilled_bytes: int = 0
    spilled_slots: tuple[int, ...] = field(default=())
    found: str = "new"
    place: str = ""
