"""What jobs that die have in common: owners that change at every batch, and a chain of secrets for each key."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from unskew.operators import Clock, Operator
from unskew.planners import Assignment, Memory, Planner, Problem
from unskew.routing import RoutingTable
from unskew.state import Groups, KeyedState

PATIENCE_MS = 2500
SECRETS = random.Random()
"""May be seeded, where sizes in bytes have to be the same every time."""


@dataclass(frozen=True)
class RandomMoves(Planner):
    """Gives half of the keys and some of the slots to channels drawn at random."""

    tolerance: float = 0.0
    seed: int = 0
    slots_drawn: float = 0.1  # share

    def slots(self, table: RoutingTable, channels: int) -> np.ndarray:
        rng, slots = np.random.default_rng((self.seed, table.version)), super().slots(table, channels)
        drawn = rng.integers(0, channels, len(slots))
        return np.where(rng.random(len(slots)) < self.slots_drawn, drawn, slots).astype(np.int32)

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        drawn = int(memory.values.get("drawn", 0))
        rng = np.random.default_rng((self.seed, drawn, 1))
        stay = (rng.random(len(problem.hashes)) < 0.5) & (problem.current < problem.channels)
        owner = np.where(stay, problem.current, rng.integers(0, problem.channels, len(problem.hashes)))
        return Assignment(owner.astype(np.int32), memory=Memory({"drawn": drawn + 1}))


class Ledger(Operator):
    """Counts a key's rows, checks their order, and chains what it returns with a number that nobody can guess.

    Each output row holds the secret of the key's last output row and a new one. If a batch's output and its state ever
    came from two different attempts, or state were lost, doubled or old, the chain would break. With a clock, a key
    that had no rows for some time says so, once, and is forgotten.
    """

    def __init__(self, time_mode: str = "none") -> None:
        self.time_mode = time_mode  # type: ignore[assignment]
        self.deadline = None if time_mode == "none" else "deadline"

    def __repr__(self) -> str:
        return f"Ledger({self.time_mode!r})"

    @property
    def value_schema(self) -> pa.Schema:
        fields = [("rows", pa.int64()), ("last", pa.list_(pa.int64())), ("secret", pa.int64())]
        return pa.schema(fields if self.deadline is None else [*fields, ("deadline", pa.int64())])

    @property
    def output_schema(self) -> pa.Schema:
        columns = [("rows", pa.int64()), ("old_secret", pa.int64()), ("secret", pa.int64()), ("disorder", pa.int64())]
        return pa.schema([*self.key_schema, *(pa.field(*column) for column in columns)])

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table:
        held, known = state.get(groups)
        before = np.where(known, held["rows"].fill_null(0).to_numpy(), 0)
        secrets = np.array([SECRETS.getrandbits(62) for _ in range(len(groups))], np.int64)
        source, sequence = (rows.column(name).to_numpy()[groups.order] for name in ("source", "sequence"))
        last, disorder = [], []
        for group, lists in enumerate(held["last"].to_pylist()):
            seen, wrong = dict(zip(*[iter(lists or [])] * 2, strict=True)), 0
            for at in range(groups.starts[group], groups.starts[group + 1]):
                wrong += seen.get(int(source[at]), -1) >= int(sequence[at])
                seen[int(source[at])] = int(sequence[at])
            last.append([number for pair in seen.items() for number in pair])
            disorder.append(wrong)
        counts = before + groups.counts
        values = [counts, pa.array(last, pa.list_(pa.int64())), secrets]
        if self.deadline is not None:
            values.append(np.full(len(groups), self._now(clock) + PATIENCE_MS))
        state.put(groups, pa.table(values, schema=self.value_schema))
        results = [counts, held["secret"], secrets, disorder]
        return pa.table([*groups.keys.columns, *results], schema=self.output_schema)

    def expire(self, state: KeyedState, clock: Clock) -> pa.Table:
        if self.deadline is None:
            return self.output_schema.empty_table()
        due = state.due(self._now(clock))
        held, _ = state.get(due)
        state.remove(due)
        nothing = pa.nulls(len(due), pa.int64())
        return pa.table([*due.keys.columns, held["rows"], held["secret"], nothing, nothing], schema=self.output_schema)

    def _now(self, clock: Clock) -> int:
        return (clock.watermark_ms or 0) if self.time_mode == "event" else clock.processing_time_ms
