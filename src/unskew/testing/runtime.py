"""A query without Spark: the real engine on a disk in memory, with drivers that die at chosen instants."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unskew.errors import ArgumentError, StateError
from unskew.hashing import hash_keys
from unskew.operators import Operator
from unskew.routing.table import RoutingTable
from unskew.runtime.engine import Engine
from unskew.runtime.history import History
from unskew.runtime.jobs import Facts
from unskew.runtime.log import RecordLog
from unskew.runtime.orders import Order
from unskew.runtime.record import Output
from unskew.runtime.settings import Channels, Keeping, Planning, Settings
from unskew.runtime.site import Site
from unskew.runtime.wire import unpack
from unskew.testing.jobs import LocalJobs
from unskew.testing.place import MemoryFiles, MemoryPlace
from unskew.testing.steps import ABORT, ADVANCE, MOVE, MOVE_SLOT, RESTART, Event
from unskew.testing.told import Told

_MOST_PARTITIONS = 4
INSTANTS = (  # where a driver may die in a batch
    "before prepare",
    "after prepare",
    "after route",
    "before channels",
    "after channels",
    "after whole",
    "after write state",
    "before create prepared",
    "after create prepared",
    "before sink",
    "after sink",
    "before create commit",
    "after create commit",
    "before write history",
    "at the end",
)
_CACHE_BYTES = 1 << 28
_BATCH_MS = 1000


class AbortedError(Exception):
    """Ends an attempt early."""


@dataclass
class Runtime:
    """Runs batches of an operator, with the moves and failures that a test asks for."""

    operator: Operator
    folder: Path
    random: np.random.Generator
    channels: int
    slots: int
    delay_ms: int | None = None  # how far the watermark is behind the greatest event time; None: it is the clock
    parts: int = 1  # a batch each as far as the operator can tell; time passes with the last one
    isolated: bool = False  # keep no local copies
    attempts: int = 0
    batch_id: int = 0
    clock_ms: int = 0
    watermark_ms: int = 0
    previous_watermark_ms: int = 0
    late_rows: int = 0
    failing: bool = False
    place: MemoryPlace = field(default_factory=MemoryPlace)
    target: RoutingTable = field(init=False)

    def __post_init__(self) -> None:
        self.target = RoutingTable.initial(self.channels, self.slots)
        self._log = RecordLog(MemoryFiles("memory", self.place))
        self._engine = self._start()
        self._shown: dict[int, pa.Table] = {}

    def happen(self, event: Event) -> None:
        match event:
            case ABORT():
                self.failing = True
            case RESTART():
                self.folder = self.folder / "again"
                self._engine = self._start()
            case ADVANCE(milliseconds):
                self.clock_ms += milliseconds
                self.watermark_ms += milliseconds
            case MOVE(key, to):
                owners = dict(zip(self.target.explicit_hashes.tolist(), self.target.explicit_channels, strict=True))
                owners[self._hash_of(key)] = np.int32(to)
                self.target = self.target.with_explicit(list(owners), list(owners.values()))
            case MOVE_SLOT(slot, to):
                self.target = self.target.with_slots(np.where(np.arange(self.slots) == slot, to, self.target.slots))
            case _:
                raise ArgumentError("a step must be a batch or an event", got=event)

    def batch(self, rows: pa.Table) -> list[pa.Table]:
        """Run a batch, again if it fails, and return the output of each part; for learners, what they have learned."""
        parts = 1 if self.operator.learns else self.parts
        cuts = np.sort(self.random.integers(rows.num_rows + 1, size=parts - 1)).tolist() if parts > 1 else []
        bounds, self.late_rows, outputs = [0, *cuts, rows.num_rows], 0, []
        for number, (start, stop) in enumerate(pairwise(bounds), start=1):
            outputs.append(self._part(rows.slice(start, stop - start), last=number == parts))
        self.clock_ms += _BATCH_MS
        self.previous_watermark_ms = self.watermark_ms
        self.watermark_ms = self._watermark_after(rows)
        return outputs

    def held(self) -> pa.Table:
        _, committed = self._log.last()
        record = self._log.read(committed)
        site = Site(self._log.files, "reader", self.operator, self.slots, cache_bytes=0)
        channels = {} if record is None else record.channels
        orders = [Order(channel, kept.manifest) for channel, kept in sorted(channels.items())] or [Order(0)]
        found = []
        for order in orders:
            state, _ = site.open(order)
            with state:
                found += [state.row_schema.empty_table(), *state.scan()]
        return pa.concat_tables(found)

    def _start(self) -> Engine:
        machine = str(self.folder / str(self.random.integers(2)))
        keeping = Keeping(cache_bytes=0 if self.isolated else _CACHE_BYTES)
        settings = Settings(Channels(self.channels, slots=self.slots), self._planning(), keeping=keeping)
        return Engine(self.operator, settings, self._log, "testing", cache_folder=machine)

    def _planning(self) -> Planning:
        """Plan by the batch's own counts, ahead, or, if nothing has to move, not at all."""
        told, (last, _) = Told(self.target), self._log.last()
        record = self._log.read(last)
        if record is not None and record.table.routes_like(self.target) and self.random.random() < 0.5:
            return Planning(told)
        return Planning(told, "ahead" if self.random.random() < 0.2 else "own", min_gain=-np.inf)

    def _part(self, rows: pa.Table, last: bool) -> pa.Table:
        watermark = self.watermark_ms if last else self.previous_watermark_ms
        empty = rows.num_rows == 0 and self.random.random() < 0.5
        facts = Facts(self.batch_id, f"offsets of {self.batch_id}", self.clock_ms, watermark, empty)
        self._engine.settings = replace(self._engine.settings, planning=self._planning())
        instant = str(self.random.choice(INSTANTS)) if self.failing else None
        self.failing = False
        if instant is not None:
            try:
                self._attempt(rows, facts, instant)
            except AbortedError:
                self._engine = self._start()
        self._attempt(rows, facts, None)
        self.batch_id += 1
        figures = History(self._log.files).refresh().get(facts.batch_id)
        self.late_rows += figures.late_rows if figures else 0
        return self._shown[facts.batch_id]

    def _attempt(self, rows: pa.Table, facts: Facts, instant: str | None) -> None:
        self.attempts += 1

        def happen(what: str, name: str = "") -> None:
            if f"{what} {name.split('/', maxsplit=1)[0]}".strip() == instant:
                raise AbortedError

        def sink(output: Output, batch_id: int) -> None:
            happen("before sink")
            shown = self._rows_of(output)
            if batch_id in self._shown and not _same(self._shown[batch_id], shown):
                raise StateError(f"the sink got other rows for batch {batch_id} the second time")
            self._shown[batch_id] = shown
            happen("after sink")

        bounds = np.linspace(0, rows.num_rows, self.random.integers(1, _MOST_PARTITIONS) + 1).astype(int).tolist()
        partitions = [rows.slice(start, stop - start) for start, stop in pairwise(bounds)]
        self.place.happening = happen
        try:
            self._engine.run(facts, LocalJobs(partitions, happening=happen), sink)
        finally:
            self.place.happening = lambda operation, name: None
        if instant is not None:  # the driver dies at the end, before Spark knows that the batch is done
            raise AbortedError

    def _rows_of(self, output: Output) -> pa.Table:
        blobs = [*output.inline, *(self._log.files.read_piece(piece) for piece in output.pieces)]
        schema = self.operator.result_schema
        return pa.concat_tables([schema.empty_table(), *(unpack(blob).cast(schema) for blob in blobs)])

    def _watermark_after(self, rows: pa.Table) -> int:
        if self.delay_ms is None:
            return self.clock_ms
        times = rows.column(self.operator.event_time)
        greatest = pc.max(times.cast(pa.timestamp("us", times.type.tz)))
        if not greatest.is_valid:
            return self.watermark_ms
        return max(self.watermark_ms, int(greatest.value) // 1000 - self.delay_ms)

    def _hash_of(self, key: Any) -> int:
        values = key if isinstance(key, tuple) else (key,)
        schema = self.operator.key_schema
        if len(values) != len(schema):
            raise ArgumentError("a key to move needs a value for every key column", got=key, hint=f"{schema.names}")
        row = pa.table([[value] for value in values], schema=schema)
        return int(hash_keys(row, self.operator.key)[0])


def _same(left: pa.Table, right: pa.Table) -> bool:
    """Tell whether two tables hold the same rows in the same order; to Arrow, no NaN equals another."""
    return left.equals(right) or list(map(repr, left.to_pylist())) == list(map(repr, right.to_pylist()))
