"""What a batch asks of whoever runs its tasks: Spark, or the test kit in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from unskew.runtime import wire
from unskew.runtime.channel import ChannelTask
from unskew.runtime.prepare import Prepare
from unskew.runtime.record import Output
from unskew.runtime.route import Route, Worker
from unskew.runtime.wire import record_batch
from unskew.state.files import Piece

Batches = Iterator[pa.RecordBatch]
Sink = Callable[[Output, int], None]  # gives the recorded rows of a batch to the user


@dataclass(frozen=True)
class Facts:
    """What is known of a batch before it runs, the same in every attempt."""

    batch_id: int
    fingerprint: str  # tells the batch from any other with the same number
    time_ms: int  # when it was planned
    watermark_ms: int | None = None  # None without event time
    empty: bool = False  # whether it is certain that there are no rows


@dataclass(frozen=True, eq=False)
class Give:
    """GIVE: sends the state of channels, as pieces of files, to tasks that cannot read it themselves.

    It also runs the errands of these channels, which need the same pieces.
    """

    route: Route  # with the errands of all channels
    pieces: Mapping[int, tuple[Piece, ...]]  # what makes up the state of each channel

    def __call__(self, batches: Batches) -> Batches:
        """Yield parcels (`wire.PARCELS`) from pieces (`wire.PIECES`); all pieces of a channel come to one task."""
        route, seen = self.route, set()
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("channel", "name", "offset"))
            for channel, name, offset, contents in zip(*columns, batch.column("contents"), strict=True):
                seen.add(channel)
                route.extract.site.files.take_in(name, offset, contents.as_buffer())
                piece = wire.enveloped(name, offset, contents.as_buffer())
                yield wire.parcel(int(route.task_of[channel]), channel, wire.GIVEN, piece)
        for order in route.orders:
            if order.channel in seen:
                yield from route.run_errands((order,))


@dataclass(frozen=True, eq=False)
class Work:
    """The second half of a batch: route packs, then work in channels."""

    route: Route  # runs before the shuffle
    channels: ChannelTask  # runs behind it
    tasks: int  # tasks behind the shuffle
    worker: Worker | None = None  # runs in between, behind a shuffle of its own, under a splitting scheme
    homes: tuple[str, ...] = ()  # the place that each task is held to; empty: tasks run anywhere
    give: Give | None = None  # brings the state of some channels along, where tasks cannot read it

    def giving(self, pieces: Mapping[int, tuple[Piece, ...]]) -> Work:
        """Return the same work with the state of some channels; their errands run where that state is read."""
        errands = {
            source: tuple(order for order in orders if order.channel not in pieces)
            for source, orders in self.route.errands.items()
        }
        return replace(self, route=replace(self.route, errands=errands), give=Give(self.route, pieces))


class Jobs(Protocol):
    """The rows of one batch, and ways to run tasks on them. All return the results of channels (`wire.RESULTS`)."""

    cores: int  # tasks that can run at once
    presums: bool  # whether rows can be combined in SQL (`Prepare.presum`)

    def homes(self, channels: int) -> tuple[str, ...]:
        """Return a place for each task that so many channels need; empty where tasks cannot be held to places."""

    def leave_homes(self) -> None:
        """Look for other homes next time, because nothing runs any more where one was."""

    def count(self, prepare: Prepare) -> list[bytes]:
        """Prepare the rows, keep the packs for `work`, and return the counts of each partition."""

    def work(self, work: Work) -> pa.Table:
        """Run the second half on the packs that `count` has kept, and on initial state if there is any."""

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

    If there are more than `most_rows`, it gives up with `wire.TOO_MANY` before it has done anything.
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
                yield record_batch(wire.RESULTS, [0], [wire.TOO_MANY], [b""])
                return
        yield from self.work.channels(self.work.route(self.prepare(source, iter(held))))


def no_packs() -> pa.RecordBatch:
    """Return the packs of a partition without rows; orders can travel with them."""
    return record_batch(wire.PACKS, [0], [wire.LAST], [None], [None])
