"""A query for tests that say step by step what happens to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from schedule_operators import SCHEMA, Row
from schedule_troubles import DiedError, Gate, Shared, TroubledJobs, die, files_of
from schedule_world import SLOTS

from unskew.hashing import hash_keys
from unskew.operators import Operator
from unskew.planners import Planner, planner
from unskew.runtime.engine import Engine
from unskew.runtime.jobs import Facts
from unskew.runtime.log import RecordLog
from unskew.runtime.orders import Order
from unskew.runtime.record import Output, Record
from unskew.runtime.settings import Channels, Keeping, Planning, Settings, Splitting
from unskew.runtime.site import Site
from unskew.runtime.wire import unpack
from unskew.testing.place import MemoryFiles, MemoryPlace


def rows_of(*keys: str, parts: Iterable[float] | None = None) -> pa.Table:
    """Return rows with these keys."""
    count = len(keys)
    columns = [list(keys), np.zeros(count, int), np.arange(count), np.ones(count, int)]
    times = pa.array(np.zeros(count, int), pa.timestamp("us"))
    return pa.table([*columns, pa.array(parts or [0.0] * count, pa.float64()), times], schema=SCHEMA)


def hash_of(key: str) -> int:
    """Return a key's hash."""
    return int(hash_keys(pa.table({"key": [key]}), "key")[0])


@dataclass(eq=False)
class Start:
    """One start of the query."""

    engine: Engine
    gate: Gate
    query: Query

    def run(
        self,
        batch_id: int,
        *partitions: pa.Table,
        fingerprint: str = "",
        time_ms: int = 0,
        empty: bool = False,
        dies: str | None = None,
        **options: Any,
    ) -> TroubledJobs:
        """Run a batch; if it dies, the start is over."""
        if dies is not None:
            self.gate.meanwhile[dies] = die
        self.gate.trace.clear()
        facts = Facts(batch_id, fingerprint or f"offsets of {batch_id}", time_ms, time_ms, empty)
        jobs = TroubledJobs(partitions, self.gate, np.random.default_rng(0), **options)
        try:
            self.engine.run(facts, jobs, self._sink)
        except DiedError:
            assert dies is not None
        else:
            assert dies is None or dies in self.gate.meanwhile, "did not die"
        return jobs

    @property
    def tasks(self) -> list[str]:
        """The tasks that the last batch ran."""
        names = ("prepare", "route", "worker", "channels", "whole")
        return [what.split()[1] for what in self.gate.trace if what.startswith("before") and what.split()[1] in names]

    def _sink(self, output: Output, batch_id: int) -> None:
        self.gate(f"before sink {batch_id}")
        self.query.shown.setdefault(batch_id, []).append(self.query.rows_in(output))
        self.gate(f"after sink {batch_id}")


@dataclass(eq=False)
class Query:
    """A checkpoint, and all that its sink was ever given: for each batch, once or several times."""

    operator: Operator
    channels: int = 2
    shared: Shared = field(default_factory=Shared)
    shown: dict[int, list[list[Row]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.operator = self.operator.bind(SCHEMA, ("key",))

    @property
    def contents(self) -> dict[str, bytes]:
        """The files."""
        return self.shared.contents

    @property
    def log(self) -> RecordLog:
        """The records."""
        return RecordLog(MemoryFiles("memory", MemoryPlace(self.shared.contents)))

    def start(
        self,
        how: Planner | None = None,
        *,
        split: bool = False,
        records: int = 10,
        inline_bytes: int = 4 << 20,
        log: Callable[[MemoryFiles], RecordLog] = RecordLog,
        **planning: Any,
    ) -> Start:
        """Start a driver."""
        planning = {"min_gain": -np.inf} | planning
        settings = Settings(
            Channels(self.channels, slots=SLOTS),
            Planning(how or planner("keep", tolerance=0.0), **planning),
            Splitting(auto=split),
            Keeping(cache_bytes=0, records=records, inline_bytes=inline_bytes),
        )
        gate = Gate()
        return Start(Engine(self.operator, settings, log(files_of(self.shared, gate)), "query"), gate, self)

    def record(self, batch_id: int) -> Record:
        """Return a record that must be there."""
        record = self.log.read(batch_id)
        assert record is not None
        return record

    def rows_in(self, output: Output) -> list[Row]:
        """Return the rows of an output."""
        blobs = [*output.inline, *(self.log.files.read_piece(piece) for piece in output.pieces)]
        return [row for blob in blobs for row in unpack(blob).cast(self.operator.result_schema).to_pylist()]

    def held(self, batch_id: int) -> dict[int, list[Row]]:
        """Return the state after a batch, by channel."""
        site, found = Site(self.log.files, "reader", self.operator, SLOTS, cache_bytes=0), {}
        for channel, kept in self.record(batch_id).channels.items():
            state, _ = site.open(Order(channel, kept.manifest))
            with state:
                found[channel] = pa.concat_tables([state.row_schema.empty_table(), *state.scan()]).to_pylist()
        return found

    def keys_held(self, batch_id: int) -> dict[int, list[str]]:
        """Return the keys that have state after a batch, by channel, where there are any."""
        return {c: sorted(row["key.key"] for row in rows) for c, rows in self.held(batch_id).items() if rows}
