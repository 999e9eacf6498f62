"""What a batch asks of whoever runs its tasks: Spark, or the test kit in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from unskew.runtime.channel import ChannelTask
from unskew.runtime.give import Give
from unskew.runtime.prepare import Prepare
from unskew.runtime.record import Output
from unskew.runtime.route import Route
from unskew.runtime.wire import LAST, PACKS, RESULTS, TOO_MANY, record_batch
from unskew.runtime.worker import Worker
from unskew.state.files import Piece

Batches = Iterator[pa.RecordBatch]

Sink = Callable[[Output, int], None]
"""Gives the recorded rows of a batch to the user."""


@dataclass(frozen=True)
class Facts:
    """What is known of a batch before it runs, the same in every attempt.

    Parameters
    ----------
    batch_id, fingerprint
        The batch, and what tells it from any other that has its number.
    time_ms
        When it was planned.
    watermark_ms
        Up to where event time is complete; None without event time.
    empty
        Whether it is certain that it has no rows.
    """

    batch_id: int
    fingerprint: str
    time_ms: int
    watermark_ms: int | None = None
    empty: bool = False


@dataclass(frozen=True, eq=False)
class Work:
    """The second half of a batch: route packs, work in channels.

    Parameters
    ----------
    route, channels
        What runs before the shuffle and behind it.
    tasks
        Tasks behind the shuffle.
    worker
        What runs in between, behind a shuffle of its own, under a splitting scheme.
    homes
        The place that each task is held to; empty: tasks run anywhere.
    give
        What brings the state of some channels along, where tasks cannot read it.
    """

    route: Route
    channels: ChannelTask
    tasks: int
    worker: Worker | None = None
    homes: tuple[str, ...] = ()
    give: Give | None = None

    def giving(self, pieces: Mapping[int, tuple[Piece, ...]]) -> Work:
        """Return the same work with the state of some channels; their errands are run where that state is read."""
        orders = {order.channel: order for orders in self.route.errands.values() for order in orders}
        errands = {
            source: tuple(order for order in orders if order.channel not in pieces)
            for source, orders in self.route.errands.items()
        }
        give = Give(self.route, {channel: orders[channel] for channel in pieces}, pieces)
        return replace(self, route=replace(self.route, errands=errands), give=give)


class Jobs(Protocol):
    """The rows of one batch, and ways to run tasks on them. All return the results of channels (`wire.RESULTS`)."""

    cores: int
    """Tasks that can run at once."""

    presums: bool
    """Whether rows can be combined in SQL (`Prepare.presum`)."""

    def homes(self, channels: int) -> tuple[str, ...]:
        """Return a place for each task that channels are worth, where it can be held to one; else nothing."""

    def leave_homes(self) -> None:
        """Look for other homes next time: where one was, nothing runs any more."""

    def count(self, prepare: Prepare) -> list[bytes]:
        """Prepare the rows, keep the packs for `work`, and return the counts of each partition."""

    def work(self, work: Work) -> pa.Table:
        """Run the second half on the packs that `count` has kept, and on state to begin with, if there is any."""

    def direct(self, prepare: Prepare, work: Work) -> pa.Table:
        """Run both halves at once."""

    def whole(self, whole: Whole) -> pa.Table:
        """Run everything in one task."""

    def errands(self, work: Work) -> pa.Table:
        """Run the second half without any rows."""

    def drain(self) -> None:
        """Let the rows flow into nothing."""


@dataclass(frozen=True, eq=False)
class Whole:
    """A small batch in one task, without a shuffle.

    Gives up with `wire.TOO_MANY`, before anything is done, when there are more than `most_rows`.
    """

    prepare: Prepare
    work: Work
    most_rows: int

    def __call__(self, source: int, batches: Batches) -> Batches:
        """Yield results (`wire.RESULTS`)."""
        rows, held = 0, []
        for batch in batches:
            rows += batch.num_rows
            held.append(batch)
            if rows > self.most_rows:
                yield record_batch(RESULTS, [0], [TOO_MANY], [b""])
                return
        yield from self.work.channels(self.work.route(self.prepare(source, iter(held))))


def no_packs() -> pa.RecordBatch:
    """Return the packs of a partition without rows; orders can travel with them."""
    return record_batch(PACKS, [0], [LAST], [None], [None])
