"""Run the tasks of a batch in this process: the same functions that Spark runs, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from unskew.runtime.jobs import Whole, Work, no_packs
from unskew.runtime.prepare import Prepare
from unskew.runtime.wire import LAST, PIECES, RESULTS, record_batch

Batches = Iterable[pa.RecordBatch]
Task = Callable[[Iterator[pa.RecordBatch]], Batches]


@dataclass(eq=False)
class LocalJobs:
    """The rows of one batch in partitions; see `unskew.runtime.jobs.Jobs`."""

    partitions: Sequence[pa.Table]
    cores: int = 2
    initial: Callable[[Work], Batches] | None = None  # gives parcels with initial state
    happening: Callable[[str], None] = lambda what: None  # called before and after every task; raises to make it fail
    far: bool = False  # tasks cannot reach files, so each runs on a copy of what it is given; see `FarFiles`
    drained: int = 0
    presums: bool = False
    _packs: list[list[pa.RecordBatch]] = field(default_factory=list)

    def homes(self, channels: int) -> tuple[str, ...]:
        return ()

    def leave_homes(self) -> None:
        pass

    def count(self, prepare: Prepare) -> list[bytes]:
        for number, rows in enumerate(self.partitions):
            self._packs.append(self._task("prepare", partial(prepare, number), rows.to_batches()))
        packs = [batch for task in self._packs for batch in task]
        last = [batch for batch in packs if batch.column("sequence")[0].as_py() == LAST]
        return [batch.column("counts")[0].as_py() for batch in last]

    def work(self, work: Work) -> pa.Table:
        return self._run([self._task("route", work.route, packs) for packs in self._packs], work)

    def direct(self, prepare: Prepare, work: Work) -> pa.Table:
        if not self.partitions:  # no task could carry the orders
            return self.errands(work)
        task = partial(_routed, prepare, work)
        rows = enumerate(self.partitions)
        return self._run([self._task("route", partial(task, n), table.to_batches()) for n, table in rows], work)

    def whole(self, whole: Whole) -> pa.Table:
        if not self.partitions:
            return RESULTS.empty_table()
        rows = [batch for table in self.partitions for batch in table.to_batches()]
        return pa.Table.from_batches(self._task("whole", partial(whole, 0), rows), RESULTS)

    def errands(self, work: Work) -> pa.Table:
        return self._run([self._task("route", work.route, [no_packs()])], work)

    def drain(self) -> None:
        self.drained += 1

    def _run(self, parcels: list[list[pa.RecordBatch]], work: Work) -> pa.Table:
        if self.initial is not None:
            parcels.append(list(self.initial(work)))
        if work.give is not None:
            parcels += [self._task("give", work.give, [batch]) for batch in _given(work)]
        if work.worker is not None:
            parcels = [self._task("worker", work.worker, mine) for mine in _shuffled(parcels, work.tasks)]
        results = [self._task("channels", work.channels, mine) for mine in _shuffled(parcels, work.tasks)]
        return pa.Table.from_batches([batch for task in results for batch in task], RESULTS)

    def _task(self, name: str, function: Task, batches: Batches) -> list[pa.RecordBatch]:
        self.happening(f"before {name}")
        result = list((deepcopy(function) if self.far else function)(iter(batches)))
        self.happening(f"after {name}")
        return result


def _routed(prepare: Prepare, work: Work, source: int, batches: Iterator[pa.RecordBatch]) -> Batches:
    return work.route(prepare(source, batches))


def _given(work: Work) -> Iterator[pa.RecordBatch]:
    assert work.give is not None
    for channel, pieces in work.give.pieces.items():
        contents = [work.channels.site.files.read_piece(piece).to_pybytes() for piece in pieces]
        names, offsets = [piece.file for piece in pieces], [piece.offset for piece in pieces]
        yield record_batch(PIECES, [channel] * len(pieces), names, offsets, contents)


def _shuffled(parcels: list[list[pa.RecordBatch]], tasks: int) -> list[list[pa.RecordBatch]]:
    """Return the rows that each task gets."""
    batches = [batch for task in parcels for batch in task]
    rows = [batch.slice(row, 1) for batch in batches for row in range(batch.num_rows)]
    return [[row for row in rows if row.column("task")[0].as_py() == task] for task in range(tasks)]
