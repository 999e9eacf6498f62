"""CHANNEL: install what came, forget what went, work on the rows, write one chunk of state, report."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.codec import dump, load
from unskew.errors import StateError
from unskew.load.statistics import Statistics, add_up
from unskew.operators import Clock, Mergeable, Operator, Updated
from unskew.operators.partials import partial_states
from unskew.runtime import wire
from unskew.runtime.cutting import cut
from unskew.runtime.measure import ChannelReport, channel_statistics, spilled_slots, statistics_of_few
from unskew.runtime.orders import Order
from unskew.runtime.record import ChannelState
from unskew.runtime.site import Site, local_place
from unskew.runtime.wire import pack, record_batch, unpack
from unskew.state.carried import NotHereError
from unskew.state.files import Files, PieceWriter
from unskew.state.groups import Groups
from unskew.state.keyed_state import KeyedState

ROWS_PER_PAYLOAD = 1 << 18
HOT_KEYS = 5

Placed = tuple[tuple[int, int], pa.Buffer]  # a blob, and the source and sequence that give it its place
Result = tuple[int, int, bytes]  # a row of `wire.RESULTS`


@dataclass
class Mail:
    """All that came for one channel."""

    order: Order | None = None
    state: list[Placed] = field(default_factory=list)
    rows: list[Placed] = field(default_factory=list)
    missed: bool = False

    @property
    def is_work(self) -> bool:
        """Whether the channel has to be called."""
        return bool(self.rows or self.state or (self.order is not None and self.order.called))


@dataclass(frozen=True, eq=False)
class ChannelTask:
    """Runs the channels of one task, one after the other.

    Nothing that it writes counts before a record names it. Local copies are published when all channels of the task
    have succeeded. Where tasks cannot reach the checkpoint and a channel's state has not come, the task does no work
    and asks for the state of all its channels.
    """

    site: Site
    clock: Clock
    listed_keys: NDArray[np.int64]  # keys with an entry in the batch's table; always reported
    tracked_keys: int | None  # other keys that a channel reports one by one, at most; None: all
    inline_bytes: int  # larger output of a channel is written to files
    workers: int = 0  # of a splitting scheme
    presummed: bool = False  # Spark has combined the rows; a key then costs by the rows that came here

    def __call__(self, parcels: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield results (`wire.RESULTS`)."""
        attempt, batch_id, files = uuid.uuid4().hex[:16], self.clock.batch_id, self.site.files
        with (
            ExitStack() as stack,
            PieceWriter(files, f"state/{batch_id}", attempt) as chunks,
            PieceWriter(files, f"output/{batch_id}", attempt) as outputs,
        ):
            boxes, counted = _sorted(parcels, files)
            results: list[Result] = [(0, wire.COUNTED, counts) for counts in counted]
            states = []
            try:
                for channel, mail in sorted(boxes.items()):
                    if not mail.is_work:
                        continue
                    if mail.order is None:
                        raise StateError("rows came for a channel that got no order", got=channel)
                    if mail.missed:
                        raise NotHereError
                    state, store = self.site.open(mail.order, chunks)
                    states.append(stack.enter_context(state))
                    made, report = self._work(state, mail.order, mail, outputs)
                    state.flush(f"{batch_id}-{attempt}")
                    if store.manifest is not None:
                        held = ChannelState(store.manifest, store.names, state.rows, state.bytes, state.earliest)
                        report = replace(report, state=held)
                    results += [*made, (channel, wire.REPORT, dump(report))]
            except NotHereError:
                yield from _missing(boxes)
                return
            chunks.close()
            outputs.close()
            for state in states:
                state.publish()
        results += [(0, wire.WRITTEN, wire.enveloped(name, 0, data)) for name, data in files.leaving()]
        yield from wire.gathered(wire.RESULTS, results)

    def _work(
        self, state: KeyedState, order: Order, mail: Mail, outputs: PieceWriter
    ) -> tuple[list[Result], ChannelReport]:
        """Do one channel's work; return its output and its report."""
        operator: Operator = self.site.operator
        began = time.perf_counter()
        moves, extracted = order.moves, 0
        if len(moves):
            extracted = state.extract(moves.keys, moves.slots, keep=order.listed).num_rows
        installed, moved_bytes = _install(operator, state, mail.state)
        move_seconds = time.perf_counter() - began
        schema = _row_schema(operator)
        packs = [(source, unpack(blob).cast(schema)) for (source, _), blob in sorted(mail.rows, key=itemgetter(0))]
        table = pa.concat_tables([rows for _, rows in packs] or [schema.empty_table()]).combine_chunks()
        rows = table.select(operator.combined_schema.names)
        groups = state.group(rows, table.column(wire.HASH_COLUMN).to_numpy())
        tuples = groups.counts.astype(np.float64)
        if operator.mergeable:
            tuples = add_up(table.column(wire.COUNT_COLUMN).to_numpy(), groups.group_of_row, len(groups))
        started = time.perf_counter()
        made = operator.update(state, groups, rows, self.clock)
        made = made if isinstance(made, Updated) else Updated(made)
        timed_out = operator.expire(state, self.clock)
        seconds = time.perf_counter() - started
        output, results = made.output, list[Result]()
        if len(order.shared):  # the output of split keys is made where all their parts are together
            output = output.filter(pa.array(~np.isin(groups.hashes, order.shared)))
            results.append((order.channel, wire.PARTIALS, pack(partial_states(state, groups, order.shared))))
        spilled = state.spilled_bytes
        report = ChannelReport(
            self._statistics(state, groups, tuples, made.seconds),
            rows=int(tuples.sum()),
            late_rows=made.late_rows,
            keys=len(groups),
            installed=installed,
            extracted=extracted,
            moved_bytes=moved_bytes,
            seconds=seconds,
            move_seconds=move_seconds if extracted or installed else 0.0,
            measured=made.seconds is not None,
            worker_rows=_rows_by_worker(packs, self.workers),
            spilled_bytes=int(spilled.sum()),
            spilled_slots=spilled_slots(spilled, state.slot_bytes),
            found=state.found,
            place=local_place(),
        )
        everything = pa.concat_tables([output, timed_out]).combine_chunks()
        return results + self._outgoing(order.channel, everything, outputs), report

    def _statistics(
        self, state: KeyedState, groups: Groups, tuples: NDArray[np.float64], seconds: NDArray[np.float64] | None
    ) -> Statistics:
        """Return the load by key and by slot; of combined rows only the hottest keys, unless the table lists some."""
        if self.presummed and not len(self.listed_keys):
            return statistics_of_few(state, groups, tuples, groups.counts.astype(np.float64), HOT_KEYS)
        cost = tuples if seconds is None else seconds
        return channel_statistics(state, groups, tuples, cost, self.listed_keys, self.tracked_keys)

    def _outgoing(self, channel: int, output: pa.Table, outputs: PieceWriter) -> list[Result]:
        """Return the output as payloads: the rows themselves, or where they are written if there are many."""
        packed = [pack(part) for part in cut(output.to_batches(), ROWS_PER_PAYLOAD)]
        if sum(map(len, packed)) <= self.inline_bytes:
            return [(channel, wire.OUTPUT, blob) for blob in packed]
        return [(channel, wire.OUTPUT_PIECE, dump(outputs.write(blob))) for blob in packed]


def _row_schema(operator: Operator) -> pa.Schema:
    schema = operator.combined_schema.append(pa.field(wire.HASH_COLUMN, pa.int64()))
    return schema.append(pa.field(wire.COUNT_COLUMN, pa.int64())) if operator.mergeable else schema


def _install(operator: Operator, state: KeyedState, parcels: list[Placed]) -> tuple[int, int]:
    """Take in the state of moved keys; return how many keys and bytes came."""
    keys = size = 0
    for _, blob in sorted(parcels, key=itemgetter(0)):
        moved = unpack(blob).cast(state.row_schema)
        keys, size = keys + moved.num_rows, size + moved.nbytes
        if isinstance(operator, Mergeable):
            operator.absorb(state, moved)  # a split key may be here in part
        else:
            state.install(moved)
    return keys, size


def _missing(boxes: dict[int, Mail]) -> Iterator[pa.RecordBatch]:
    """Ask for the state of every channel that has some and is called."""
    for channel, mail in sorted(boxes.items()):
        if mail.is_work and mail.order is not None and mail.order.manifest is not None:
            yield record_batch(wire.RESULTS, [channel], [wire.MISSING], [None])


def _sorted(parcels: Iterator[pa.RecordBatch], files: Files) -> tuple[dict[int, Mail], list[bytes]]:
    """Return what came, by channel, and the counts for the driver; hand pieces of files over to `files`."""
    mail: dict[int, Mail] = defaultdict(Mail)
    counts: list[bytes] = []
    for batch in parcels:
        columns = (batch.column(name).to_pylist() for name in ("channel", "kind", "source", "sequence"))
        for channel, kind, source, sequence, blob in zip(*columns, batch.column("blob"), strict=True):
            if kind == wire.COUNTS:
                counts.append(blob.as_py())
            elif kind == wire.ORDER:
                mail[channel].order = load(Order, blob.as_py())
            elif kind == wire.GIVEN:
                files.take_in(*wire.opened(blob.as_buffer()))
            elif kind == wire.MISSED:
                mail[channel].missed = True
            else:
                box = mail[channel].state if kind == wire.STATE else mail[channel].rows
                box.append(((source, sequence), blob.as_buffer()))
    return mail, counts


def _rows_by_worker(packs: list[tuple[int, pa.Table]], workers: int) -> tuple[int, ...]:
    rows = [0] * workers
    if workers:
        for worker, partials in packs:
            rows[worker] += pc.sum(partials[wire.COUNT_COLUMN]).as_py()
    return tuple(rows)
