"""The batches of a query, one after the other: run, record, hand to the sink, commit; or finish what was begun."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.errors import CheckpointError
from unskew.operators import Clock, Learner, Operator
from unskew.routing.table import RoutingTable
from unskew.runtime.batch import Batch, Stopwatch
from unskew.runtime.held import Held
from unskew.runtime.history import HistoryWriter
from unskew.runtime.jobs import Facts, Jobs, Sink
from unskew.runtime.log import RecordLog
from unskew.runtime.outcome import figures_of, record_of
from unskew.runtime.record import Identity, Record
from unskew.runtime.scaling import Scaling
from unskew.runtime.settings import Settings
from unskew.runtime.site import Site
from unskew.state.chunks import Columns

SWEEP_EVERY = 10


@dataclass(eq=False)
class Engine:
    """Runs the batches of one query, each exactly once in effect, whatever dies in between.

    Before anybody sees a row of a batch, one record fixes everything about it: output, state, table. A batch that has a
    record is never computed again. A later start of the same query fences this one off.
    """

    operator: Operator  # bound to its input
    settings: Settings
    log: RecordLog
    name: str  # of the query, unique; counts only at its first start
    shuffled: bool = False  # whether the order of rows within a partition is not fixed
    cache_folder: str | None = None  # where local copies of state lie; see `Site`
    watermarks_ms: tuple[int, int] = (0, 0)  # before the first batch: of the batch before it, and its own, at least

    def __post_init__(self) -> None:
        self._epoch, self._committed, self._first = 0, -1, True
        self._record: Record | None = None
        self._copies: dict[int, str] = {}
        self._history = HistoryWriter(self.log.files)
        channels = self.settings.channels
        most = min(2 * channels.count, channels.slots)
        self._scaling = Scaling(channels.trigger_seconds, most) if channels.auto else None

    def run(self, facts: Facts, jobs: Jobs, sink: Sink) -> None:
        """Run a batch, or finish what another attempt has begun."""
        before = self._open()
        if facts.batch_id <= self._committed:
            mark = self.log.files.read_or_none(f"commit/{facts.batch_id}")
            if mark is None:
                raise CheckpointError(
                    f"Spark runs batch {facts.batch_id}, but batch {self._committed} is committed already",
                    where=f"{self.log.files.root}/commit",
                    hint="if another driver has just run this query, start again; else the checkpoint was rolled back: "
                    "restore all of it from one copy",
                )
            self._check_same(facts, mark.decode(errors="replace"), "commit")
            jobs.drain()
            return
        expected = facts.batch_id == before.batch_id + 1
        record = self.log.read(facts.batch_id) if self._first or not expected else None
        self._first = False
        if record is not None:
            self._check_same(facts, record.fingerprint, "prepared")
            jobs.drain()
            self._finish(record, sink)
        elif expected:
            self._run(before, facts, jobs, sink)
        else:
            missing = before.batch_id + 1
            raise CheckpointError(
                f"Spark runs batch {facts.batch_id}, but batch {missing} is not committed here",
                where=f"{self.log.files.root}/commit/{missing}",
                hint="the checkpoint was rolled back or put together from parts: restore all of it from one copy",
            )

    def _run(self, before: Record, facts: Facts, jobs: Jobs, sink: Sink) -> None:
        watch = Stopwatch()
        asked, wish = self.log.requests()
        batch = self._batch(before, facts, jobs, wish, watch)
        with self._unless_replaced():
            ran = batch.run()
        record = record_of(batch, ran, facts.fingerprint, self._epoch)
        record = replace(
            record,
            identity=replace(record.identity, operator=repr(self.operator)),  # it may keep more than the last start's
            columns=self._columns(),
            figures=json.dumps(asdict(figures_of(batch, ran, record))),
        )
        self.log.prepare(record)
        watch.lap("record")
        self._finish(record, sink, watch)
        self.log.granted(asked)
        if self._scaling is not None and ran.counted.rows and record.table.channels == record.wish:
            wanted = self._scaling.after_batch(record.wish, sum(watch.seconds.values()))
            if wanted is not None:
                self.log.ask(channels=wanted)

    def _batch(self, before: Record, facts: Facts, jobs: Jobs, wish: dict[str, Any], watch: Stopwatch) -> Batch:
        operator, keeping = self.operator, self.settings.keeping
        if isinstance(operator, Learner):
            operator = operator.taught(operator.lesson_of(before.learned))
        reached = self.watermarks_ms[1] if before.batch_id < 0 else before.watermark_ms or 0
        watermark = max(facts.watermark_ms or 0, reached) if _has_event_time(operator) else None
        clock = Clock(facts.batch_id, facts.time_ms, watermark, before.watermark_ms)
        identity = before.identity
        site = Site(self.log.files, identity.name, operator, identity.slots, keeping.cache_bytes, self.cache_folder)
        return Batch(
            operator,
            self.settings,
            before,
            clock,
            site,
            jobs,
            channels=wish.get("channels", before.wish),
            memory_bytes=tuple(wish.get("memory_bytes", before.memory_bytes)),
            empty=facts.empty,
            shuffled=self.shuffled,
            watch=watch,
            copies=self._copies,
        )

    def _open(self) -> Record:
        """Return the record of the last batch. The first call takes the query over."""
        if self._record is None:
            self._epoch = self.log.claim()
            _, self._committed = self.log.last()
            self._record = self._last_record()
            if self._committed >= 0:
                self._history.catch_up(self._record)
        return self._record

    def _last_record(self) -> Record:
        if self._committed < 0:
            return self._before_the_first()
        record = self.log.read(self._committed)
        if record is None:
            raise CheckpointError(
                "the record of the last batch is missing",
                where=f"{self.log.files.root}/prepared/{self._committed}",
                hint="restore the checkpoint from a copy, or start with a new checkpointLocation",
            )
        return replace(record, memory_bytes=self.settings.keeping.memory_bytes)

    def _before_the_first(self) -> Record:
        """Return what holds before batch 0."""
        operator, channels = self.operator, self.settings.channels
        return Record(
            batch_id=-1,
            fingerprint="",
            epoch=0,
            identity=Identity(tuple(operator.key), repr(operator), channels.slots, self.name),
            columns=self._columns(),
            watermark_ms=self.watermarks_ms[0] if _has_event_time(operator) else None,
            table=RoutingTable.initial(channels.count, channels.slots),
            channels={},
            wish=channels.count,
            held=Held(np.zeros(channels.slots)),
            memory_bytes=self.settings.keeping.memory_bytes,
        )

    def _columns(self) -> pa.Table:
        return Columns.of(self.operator.key_schema, self.operator.value_schema).rows.empty_table()

    def _check_same(self, facts: Facts, fingerprint: str, folder: str) -> None:
        if facts.fingerprint != fingerprint:
            raise CheckpointError(
                f"batch {facts.batch_id} was run before with other rows",
                where=f"{self.log.files.root}/{folder}/{facts.batch_id}",
                hint=f"somebody changed or removed offsets/{facts.batch_id} of the checkpoint, or rolled it back: "
                "restore all of it from one copy, or start with a new checkpointLocation",
            )

    @contextmanager
    def _unless_replaced(self) -> Iterator[None]:
        """Raise `FencedError` for a failure after another start took over: it may have swept what this one needed."""
        try:
            yield
        except Exception:
            self.log.check_epoch(self._epoch)
            raise

    def _finish(self, record: Record, sink: Sink, watch: Stopwatch | None = None) -> None:
        """Give a recorded batch to the sink, and commit it."""
        self.log.check_epoch(self._epoch)
        with self._unless_replaced():
            sink(record.output, record.batch_id)
        if watch is not None:
            watch.lap("sink")
        if self.operator.time_mode == "processing":
            self.log.write_deadline(record.batch_id, record.earliest)
        self.log.commit(record, self._epoch)
        self._record, self._committed = record, record.batch_id
        if watch is not None:
            watch.lap("commit")
        self._history.add(record, None if watch is None else watch.seconds)
        if record.batch_id % SWEEP_EVERY == 0:
            self.log.forget(record.batch_id, self.settings.keeping.records)
            self._history.forget(record.batch_id)


def _has_event_time(operator: Operator) -> bool:
    """Tell whether the operator goes by the watermark, or its stream has one."""
    return operator.time_mode == "event" or operator.event_time is not None
