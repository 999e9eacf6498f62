"""CHECK: what the channels gave back must be complete, and nothing may have come twice."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from unskew.codec import load
from unskew.errors import StateError
from unskew.runtime import wire
from unskew.runtime.count import Counts
from unskew.runtime.measure import ChannelReport

Reports = dict[int, ChannelReport]  # by channel


@dataclass(frozen=True, eq=False)
class Results:
    """The results of a batch's channels (`wire.RESULTS`)."""

    table: pa.Table = field(default_factory=wire.RESULTS.empty_table)

    def payloads(self, kind: int) -> list[bytes]:
        """Return the payloads of one kind, in the order of channels."""
        return [payload for _, payload in self._of_kind(kind)]

    @property
    def missing(self) -> set[int]:
        """Channels whose state did not come to their task, so that nothing was done."""
        return {channel for channel, _ in self._of_kind(wire.MISSING)}

    @property
    def written(self) -> Iterator[tuple[str, pa.Buffer]]:
        """Files that the driver has to write on behalf of tasks."""
        for batch in self.table.to_batches():
            for at in np.flatnonzero(np.asarray(batch.column("kind")) == wire.WRITTEN).tolist():
                name, _, contents = wire.opened(batch.column("payload")[at].as_buffer())
                yield name, contents

    def reports(self, counted: Counts, called: Set[int], first: bool) -> Reports:
        """Return the reports; raise `StateError` if rows or state are missing or came twice.

        Channels in `called` must report whether they had rows or not. In the first batch, state may come that left no
        channel.
        """
        found: Reports = {}
        for channel, payload in self._of_kind(wire.REPORT):
            if channel in found:
                raise StateError("a channel has reported twice", got=channel)
            found[channel] = load(ChannelReport, payload)
        missing = called - found.keys()
        if missing:
            raise StateError("a channel has not reported", got=min(missing))
        rows, came, went = (sum_of(found, name) for name in ("rows", "installed", "extracted"))
        if rows != counted.rows:
            raise StateError(f"{counted.rows} rows were counted, but {rows} were worked on")
        if came != went and not (first and went == 0):
            raise StateError(f"the state of {went} keys left its channels, that of {came} arrived")
        return found

    def _of_kind(self, kind: int) -> list[tuple[int, bytes]]:
        chosen = np.flatnonzero(np.asarray(self.table.column("kind")) == kind)
        rows = self.table.take(pa.array(chosen))
        channels, payloads = np.asarray(rows.column("channel")), rows.column("payload")
        return [(int(channels[i]), payloads[int(i)].as_py()) for i in np.argsort(channels, kind="stable")]


def sum_of(reports: Reports, name: str) -> int:
    """Add up one field of all reports."""
    return sum(getattr(report, name) for report in reports.values())
