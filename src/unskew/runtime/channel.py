"""CHANNEL: install what came, forget what went, work on the rows, write one chunk of state, report."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.codec import dump, load
from unskew.errors import StateError
from unskew.load.statistics import add_up
from unskew.operators import Clock, Mergeable, Operator, Updated
from unskew.operators.partials import partial_states
from unskew.runtime.cutting import cut
from unskew.runtime.measure import channel_statistics, spilled_slots, statistics_of_few
from unskew.runtime.orders import Order
from unskew.runtime.report import ChannelReport
from unskew.runtime.site import Site, local_place
from unskew.runtime.wire import (
    COUNT_COLUMN,
    COUNTED,
    COUNTS,
    GIVEN,
    HASH_COLUMN,
    MISSED,
    MISSING,
    ORDER,
    OUTPUT,
    OUTPUT_PIECE,
    PARTIALS,
    REPORT,
    RESULTS,
    ROWS,
    STATE,
    WRITTEN,
    enveloped,
    gathered,
    opened,
    pack,
    record_batch,
    unpack,
)
from unskew.state.carried import NotHereError
from unskew.state.files import Files, Piece, PieceWriter
from unskew.state.keyed_state import KeyedState

ROWS_PER_PAYLOAD = 1 << 18
HOT_KEYS = 5

Placed = tuple[tuple[int, int], pa.Buffer]
"""A blob, and the source and sequence that give it its place."""


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
    have succeeded. Where tasks cannot reach the checkpoint and one channel's state has not come, the task asks for that
    of all its channels instead of working.

    Parameters
    ----------
    site
        Where state lies.
    clock
        The time of the batch.
    listed_keys
        Keys with an entry in the batch's table; reported in any case.
    tracked_keys
        Other keys that a channel reports one by one, at most; None: all.
    inline_bytes
        Output of a channel that travels to the driver, at most; more is written to files.
    workers
        Workers of a splitting scheme, 0 without one.
    presummed
        Whether Spark has combined the rows. Then a key costs by the rows that came here, not by those they stand for,
        and only the hottest keys are reported one by one, unless the table lists some.
    """

    site: Site
    clock: Clock
    listed_keys: NDArray[np.int64]
    tracked_keys: int | None
    inline_bytes: int
    workers: int = 0
    presummed: bool = False

    def __call__(self, parcels: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield results (`wire.RESULTS`)."""
        attempt, batch_id, files = uuid.uuid4().hex[:16], self.clock.batch_id, self.site.files
        results: list[tuple[int, int, bytes]] = []
        with (
            ExitStack() as stack,
            PieceWriter(files, f"state/{batch_id}", attempt) as chunks,
            PieceWriter(files, f"output/{batch_id}", attempt) as outputs,
        ):
            states = []
            boxes, counted = _sorted(parcels, files)
            results += [(0, COUNTED, counts) for counts in counted]
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
                    work = _Work(self, state, mail.order)
                    results += work.run(mail, outputs)
                    state.flush(f"{batch_id}-{attempt}")
                    report = work.report(store.manifest, store.names)
                    results.append((channel, REPORT, dump(report)))
            except NotHereError:
                yield from _missing(boxes)
                return
            chunks.close()
            outputs.close()
            for state in states:
                state.publish()
        results += [(0, WRITTEN, enveloped(name, 0, data)) for name, data in files.leaving()]
        yield from gathered(RESULTS, results)


class _Work:
    """One channel's work in one batch."""

    def __init__(self, task: ChannelTask, state: KeyedState, order: Order) -> None:
        self._task, self._state, self._order = task, state, order
        self._operator: Operator = task.site.operator
        self._figures: dict[str, int | float | tuple[int, ...]] = {}

    def run(self, mail: Mail, outputs: PieceWriter) -> list[tuple[int, int, bytes]]:
        """Work; return results without the report."""
        state, order, operator, task = self._state, self._order, self._operator, self._task
        began = time.perf_counter()
        moves, extracted = order.moves, 0
        if len(moves):
            extracted = state.extract(moves.keys, moves.slots, keep=order.listed).num_rows
        installed, moved_bytes = self._install(mail.state)
        move_seconds = time.perf_counter() - began
        packs = [(place[0], unpack(blob).cast(self._row_schema)) for place, blob in sorted(mail.rows, key=_place)]
        table = pa.concat_tables([rows for _, rows in packs] or [self._row_schema.empty_table()]).combine_chunks()
        rows = table.select(operator.combined_schema.names)
        groups = state.group(rows, table.column(HASH_COLUMN).to_numpy())
        tuples = groups.counts.astype(np.float64)
        if operator.mergeable:
            tuples = add_up(table.column(COUNT_COLUMN).to_numpy(), groups.group_of_row, len(groups))
        started = time.perf_counter()
        made = operator.update(state, groups, rows, task.clock)
        made = made if isinstance(made, Updated) else Updated(made)
        output, measured = made.output, made.seconds
        timed_out = operator.expire(state, task.clock)
        seconds = time.perf_counter() - started
        results = []
        if len(order.shared):  # of those, the output is made where all parts are together
            output = output.filter(pa.array(~np.isin(groups.hashes, order.shared)))
            results.append((order.channel, PARTIALS, pack(partial_states(state, groups, order.shared))))
        spilled = state.spilled_bytes
        if task.presummed and not len(task.listed_keys):
            merged = groups.counts.astype(np.float64)
            self._statistics = statistics_of_few(state, groups, tuples, merged, HOT_KEYS)
        else:
            cost = tuples if measured is None else measured
            self._statistics = channel_statistics(state, groups, tuples, cost, task.listed_keys, task.tracked_keys)
        self._figures = {
            "rows": int(tuples.sum()),
            "late_rows": made.late_rows,
            "keys": len(groups),
            "installed": installed,
            "extracted": extracted,
            "moved_bytes": moved_bytes,
            "seconds": seconds,
            "move_seconds": move_seconds if extracted or installed else 0.0,
            "measured": measured is not None,
            "state_rows": state.rows,
            "state_bytes": state.bytes,
            "worker_rows": _rows_by_worker(packs, task.workers),
            "spilled_bytes": int(spilled.sum()),
            "spilled_slots": spilled_slots(spilled, state.slot_bytes),
        }
        everything = pa.concat_tables([output, timed_out]).combine_chunks()
        return results + self._outgoing(everything, outputs)

    def report(self, manifest: Piece | None, files: tuple[str, ...]) -> ChannelReport:
        """Return the report, once the state is written."""
        return ChannelReport(
            channel=self._order.channel,
            statistics=self._statistics,
            manifest=manifest,
            files=files,
            earliest=self._state.earliest,
            found=self._state.found,
            place=local_place(),
            **self._figures,  # type: ignore[arg-type]
        )

    @property
    def _row_schema(self) -> pa.Schema:
        schema = self._operator.combined_schema.append(pa.field(HASH_COLUMN, pa.int64()))
        return schema.append(pa.field(COUNT_COLUMN, pa.int64())) if self._operator.mergeable else schema

    def _install(self, parcels: list[Placed]) -> tuple[int, int]:
        keys = size = 0
        for _, blob in sorted(parcels, key=_place):
            moved = unpack(blob).cast(self._state.row_schema)
            keys, size = keys + moved.num_rows, size + moved.nbytes
            if isinstance(self._operator, Mergeable):
                self._operator.absorb(self._state, moved)  # a split key may be here in part
            else:
                self._state.install(moved)
        return keys, size

    def _outgoing(self, output: pa.Table, outputs: PieceWriter) -> list[tuple[int, int, bytes]]:
        """Return the output as payloads: the rows themselves, or where they are written if there are many."""
        packed = [pack(part) for part in cut(output.to_batches(), ROWS_PER_PAYLOAD)]
        channel = self._order.channel
        if sum(map(len, packed)) <= self._task.inline_bytes:
            return [(channel, OUTPUT, blob) for blob in packed]
        return [(channel, OUTPUT_PIECE, dump(outputs.write(blob))) for blob in packed]


def _missing(boxes: dict[int, Mail]) -> Iterator[pa.RecordBatch]:
    """Ask for the state of every channel that has some and is called."""
    for channel, mail in sorted(boxes.items()):
        if mail.is_work and mail.order is not None and mail.order.manifest is not None:
            yield record_batch(RESULTS, [channel], [MISSING], [None])


def _sorted(parcels: Iterator[pa.RecordBatch], files: Files) -> tuple[dict[int, Mail], list[bytes]]:
    """Return what came, by channel, and counts that are for the driver; files take in what is theirs."""
    mail: dict[int, Mail] = defaultdict(Mail)
    counts: list[bytes] = []
    for batch in parcels:
        columns = (batch.column(name).to_pylist() for name in ("channel", "kind", "source", "sequence"))
        for channel, kind, source, sequence, blob in zip(*columns, batch.column("blob"), strict=True):
            if kind == COUNTS:
                counts.append(blob.as_py())
            elif kind == ORDER:
                mail[channel].order = load(Order, blob.as_py())
            elif kind == GIVEN:
                files.take_in(*opened(blob.as_buffer()))
            elif kind == MISSED:
                mail[channel].missed = True
            else:
                {STATE: mail[channel].state, ROWS: mail[channel].rows}[kind].append(
                    ((source, sequence), blob.as_buffer())
                )
    return mail, counts


def _place(placed: Placed) -> tuple[int, int]:
    return placed[0]


def _rows_by_worker(packs: list[tuple[int, pa.Table]], workers: int) -> tuple[int, ...]:
    rows = [0] * workers
    if workers:
        for worker, partials in packs:
            rows[worker] += pc.sum(partials[COUNT_COLUMN]).as_py()
    return tuple(rows)
