"""A small runtime: channels, stores, local copies and a routing table in one process."""

from __future__ import annotations

import copy
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.hashing import hash_keys
from unskew.operators import Clock, KeyedState, Learner, LocalCache, MemoryStore, Operator, group_rows
from unskew.routing.table import RoutingTable
from unskew.testing.steps import ABORT, ADVANCE, MOVE, MOVE_SLOT, RESTART, Event

_EXECUTORS = 2
_MOST_PACKS = 4
_CACHE_BYTES = 1 << 28
_BATCH_MS = 1000

Hashes = NDArray[np.int64]


class _AbortedError(Exception):
    """Where an attempt ends early."""


@dataclass
class Runtime:
    """Runs batches of an operator, moving keys and failing as it is told to.

    With `delay_ms` the watermark lies that much behind the greatest event time of all batches before; without, time is
    what `ADVANCE` says, the same for clock and watermark. With `parts` the rows of a batch come in as many parts, an
    `update` each; time passes after the last one. If `isolated`, no local copies are kept, and what an operator
    remembers in itself is lost.
    """

    operator: Operator
    folder: Path
    random: np.random.Generator
    channels: int
    slots: int
    delay_ms: int | None = None
    parts: int = 1
    isolated: bool = False
    attempts: int = 0
    batch_id: int = 0
    clock_ms: int = 0
    watermark_ms: int = 0
    previous_watermark_ms: int = 0
    late_rows: int = 0
    failing: bool = False
    learned: bytes = b""
    stores: list[MemoryStore] = field(init=False)
    table: RoutingTable = field(init=False)
    target: RoutingTable = field(init=False)

    def __post_init__(self) -> None:
        self.stores = [MemoryStore() for _ in range(self.channels)]
        self.table = self.target = RoutingTable.initial(self.channels, self.slots)

    def happen(self, event: Event) -> None:
        """Take note of what happens before the next batch."""
        match event:
            case ABORT():
                self.failing = True
            case RESTART():
                self.folder = self.folder / "again"
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
                raise ArgumentError("this is neither a batch nor something that may happen", got=event)

    def batch(self, rows: pa.Table) -> list[pa.Table]:
        """Run a batch, again if it fails; returns the output of each part, of learners what they have learned."""
        cuts = np.sort(self.random.integers(rows.num_rows + 1, size=self.parts - 1)).tolist() if self.parts > 1 else []
        bounds, self.late_rows, outputs = [0, *cuts, rows.num_rows], 0, []
        for number, (start, stop) in enumerate(pairwise(bounds), start=1):
            outputs.append(self._part(rows.slice(start, stop - start), last=number == self.parts))
        self.batch_id += 1
        self.clock_ms += _BATCH_MS
        self.previous_watermark_ms = self.watermark_ms
        self.watermark_ms = self._watermark_after(rows)
        return self._result(outputs)

    def held(self) -> pa.Table:
        """Return the state of all channels."""
        with ExitStack() as stack:
            states = [stack.enter_context(self._open(channel, self.stores)) for channel in range(self.channels)]
            return pa.concat_tables(
                [rows for state in states for rows in (state.row_schema.empty_table(), *state.scan())]
            )

    def _result(self, outputs: list[pa.Table]) -> list[pa.Table]:
        """Let the operator learn from a batch's output, if it does; a key's last row replaces those of parts before."""
        if not isinstance(self.operator, Learner):
            return outputs
        rows = pa.concat_tables(reversed(outputs))
        keys = rows.select(list(self.operator.key))
        groups = group_rows(keys, hash_keys(keys, self.operator.key), self.operator.key)
        self.learned = self.operator.learn(self.learned, rows.take(pa.array(groups.order[groups.starts[:-1]])))
        self.operator = self.operator.taught(self.operator.lesson_of(self.learned))
        return [self.operator.result(self.learned)]

    def _part(self, rows: pa.Table, last: bool) -> pa.Table:
        """Run a part of a batch, again if it fails."""
        instants = 2 * self.channels + 1
        failure = int(self.random.integers(instants)) if self.failing else None
        self.failing = False
        try:
            output, stores, late_rows = self._attempt(rows, failure, last)
        except _AbortedError:
            output, stores, late_rows = self._attempt(rows, None, last)
        self.stores, self.table = stores, self.target
        self.late_rows += late_rows
        return output

    def _attempt(self, rows: pa.Table, failure: int | None, last: bool) -> tuple[pa.Table, list[MemoryStore], int]:
        self.attempts += 1
        stores = [store.copy() for store in self.stores]
        instants = iter(range(2 * self.channels + 1))

        def maybe_fail() -> None:
            if next(instants) == failure:
                raise _AbortedError

        parts = self._routed(rows)
        clock = Clock(self.batch_id, self.clock_ms, self.watermark_ms, self.previous_watermark_ms)
        outputs, late_rows = [self.operator.output_schema.empty_table()], 0
        with ExitStack() as stack:
            states = [stack.enter_context(self._open(channel, stores)) for channel in range(self.channels)]
            self._move(states)
            maybe_fail()
            for state, (part, hashes) in zip(states, parts, strict=True):
                operator = copy.deepcopy(self.operator) if self.isolated else self.operator
                outputs.append(operator.update(state, state.group(part, hashes), part, clock))
                late_rows += operator.late_rows
                if last:
                    outputs.append(operator.expire(state, clock))
                maybe_fail()
                state.commit(uuid.uuid4().hex)
                maybe_fail()
        return pa.concat_tables(outputs), stores, late_rows

    def _watermark_after(self, rows: pa.Table) -> int:
        if self.delay_ms is None:
            return self.clock_ms
        times = rows.column(self.operator.event_time)
        greatest = pc.max(times.cast(pa.timestamp("us", times.type.tz)))
        if not greatest.is_valid:
            return self.watermark_ms
        return max(self.watermark_ms, int(greatest.value) // 1000 - self.delay_ms)

    def _open(self, channel: int, stores: list[MemoryStore]) -> KeyedState:
        executor = self.folder / str(self.random.integers(_EXECUTORS))
        cache = None if self.isolated else LocalCache(executor, _CACHE_BYTES).place("testing", channel)
        return KeyedState.open(
            stores[channel],
            self.operator.key_schema,
            self.operator.value_schema,
            slots=self.slots,
            deadline=self.operator.deadline,
            cache=cache,
        )

    def _move(self, states: list[KeyedState]) -> None:
        moves = self.table.moves_to(self.target)
        listed = np.union1d(self.table.explicit_hashes, self.target.explicit_hashes)
        for slot, source, target in zip(moves.slots, moves.slot_sources, moves.slot_targets, strict=True):
            states[target].install(states[source].extract(slots=[slot], keep=listed))
        for key, source, target in zip(moves.keys, moves.key_sources, moves.key_targets, strict=True):
            states[target].install(states[source].extract([key]))

    def _routed(self, rows: pa.Table) -> list[tuple[pa.Table, Hashes]]:
        """Return the rows of each channel with their hashes, as they arrive: in several packs, each combined."""
        bounds = np.linspace(0, rows.num_rows, self.random.integers(1, _MOST_PACKS) + 1).astype(int).tolist()
        packs = [(self.operator.combined_schema.empty_table(), np.empty(0, np.int64))]
        for start, stop in pairwise(bounds):
            part = self.operator.expand(rows.slice(start, stop - start))
            groups = group_rows(part, hash_keys(part, self.operator.key), self.operator.key)
            combined, groups = self.operator.combine(part, groups)
            packs.append((combined, groups.hashes[groups.group_of_row]))
        tables, hashes = zip(*packs, strict=True)
        arrived, keyed = pa.concat_tables(tables), np.concatenate(hashes)
        mine = [np.flatnonzero(self.target.lookup(keyed) == channel) for channel in range(self.channels)]
        return [(arrived.take(pa.array(chosen)), keyed[chosen]) for chosen in mine]

    def _hash_of(self, key: Any) -> int:
        values = key if isinstance(key, tuple) else (key,)
        schema = self.operator.key_schema
        if len(values) != len(schema):
            raise ArgumentError("a key to move needs a value for every key column", got=key, hint=f"{schema.names}")
        row = pa.table([[value] for value in values], schema=schema)
        return int(hash_keys(row, self.operator.key)[0])
