"""CHECK: what the channels gave back, complete and each once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from unskew.codec import load
from unskew.errors import StateError
from unskew.load.statistics import Statistics, combine
from unskew.runtime.count import Counted
from unskew.runtime.prepare import Counts
from unskew.runtime.report import ChannelReport
from unskew.runtime.wire import (
    COUNTED,
    MISSING,
    OUTPUT,
    OUTPUT_PIECE,
    PARTIALS,
    REPORT,
    RESULTS,
    TOO_MANY,
    WRITTEN,
    opened,
)
from unskew.state.files import Piece


@dataclass(frozen=True, eq=False)
class Results:
    """The results of a batch's channels (`wire.RESULTS`), sorted out."""

    table: pa.Table

    @classmethod
    def none(cls) -> Results:
        """Return the results of no channel at all."""
        return cls(RESULTS.empty_table())

    @property
    def too_many(self) -> bool:
        """Whether one task was not enough, and nothing was done."""
        return bool(self._of_kind(TOO_MANY))

    @property
    def counts(self) -> list[Counts]:
        """What was counted on the way."""
        return [load(Counts, payload) for _, payload in self._of_kind(COUNTED)]

    @property
    def inline(self) -> list[bytes]:
        """Output rows, packed, in the order of channels."""
        return [payload for _, payload in self._of_kind(OUTPUT)]

    @property
    def pieces(self) -> list[Piece]:
        """Where more output rows are written."""
        return [load(Piece, payload) for _, payload in self._of_kind(OUTPUT_PIECE)]

    @property
    def partials(self) -> list[bytes]:
        """Parts of split keys, packed, in the order of channels."""
        return [payload for _, payload in self._of_kind(PARTIALS)]

    @property
    def missing(self) -> set[int]:
        """Channels whose state did not come to their task, so that nothing was done."""
        return {channel for channel, _ in self._of_kind(MISSING)}

    @property
    def written(self) -> Iterator[tuple[str, pa.Buffer]]:
        """Files that tasks have written and the driver has to write in their place."""
        for batch in self.table.to_batches():
            for at in np.flatnonzero(np.asarray(batch.column("kind")) == WRITTEN).tolist():
                name, _, contents = opened(batch.column("payload")[at].as_buffer())
                yield name, contents

    def reports(self, counted: Counted, called: Set[int], first: bool) -> Reports:
        """Return the reports, or raise `StateError` if rows or state are missing or came twice.

        Parameters
        ----------
        counted
            The batch's rows, as they were counted.
        called
            Channels that had to report, whether they had rows or not.
        first
            Whether it is the first batch, to which state may come that left no channel.
        """
        found: dict[int, ChannelReport] = {}
        for channel, payload in self._of_kind(REPORT):
            if channel in found:
                raise StateError("a channel has reported twice", got=channel)
            found[channel] = load(ChannelReport, payload)
        missing = called - found.keys()
        if missing:
            raise StateError("a channel has not reported", got=min(missing))
        reports = Reports(found)
        if reports.rows != counted.rows:
            raise StateError(f"{counted.rows} rows were counted, but {reports.rows} were worked on")
        came, went = reports.sum_of("installed"), reports.sum_of("extracted")
        if came != went and not (first and went == 0):
            raise StateError(f"the state of {went} keys left its channels, that of {came} arrived")
        return reports

    def _of_kind(self, kind: int) -> list[tuple[int, bytes]]:
        chosen = np.flatnonzero(np.asarray(self.table.column("kind")) == kind)
        rows = self.table.take(pa.array(chosen))
        channels, payloads = np.asarray(rows.column("channel")), rows.column("payload")
        return [(int(channels[i]), payloads[int(i)].as_py()) for i in np.argsort(channels, kind="stable")]


@dataclass(frozen=True, eq=False)
class Reports:
    """The reports of a batch, by channel."""

    by_channel: Mapping[int, ChannelReport]

    def sum_of(self, name: str) -> int:
        """Add up a field of all reports."""
        return sum(getattr(report, name) for report in self.by_channel.values())

    @property
    def rows(self) -> int:
        """Rows of the batch."""
        return self.sum_of("rows")

    @property
    def statistics(self) -> Statistics:
        """The load of all channels."""
        return combine([report.statistics for report in self.by_channel.values()])
