"""Operators that give every mistake away, and what each of them has to return, in plain Python."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.operators import Aggregate, Clock, Operator, WindowAggregate
from unskew.operators.base import EVENT_TIME_METADATA
from unskew.runtime.jobs import Facts
from unskew.state import Groups, KeyedState

Row = dict[str, Any]

SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("source", pa.int64()),
        ("sequence", pa.int64()),
        ("number", pa.int64()),
        ("part", pa.float64()),
        ("time", pa.timestamp("us")),
    ],
    metadata={EVENT_TIME_METADATA: "time"},
)
PATIENCE_MS = 2500
WINDOW_MS, SLIDE_MS = 4000, 2000


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
        secrets = np.array([random.SystemRandom().getrandbits(62) for _ in range(len(groups))], np.int64)
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


@dataclass(frozen=True)
class Input:
    """The rows of a batch in their partitions, and what Spark says of it."""

    facts: Facts
    partitions: tuple[pa.Table, ...]

    @cached_property
    def rows(self) -> list[Row]:
        """All rows."""
        return [row for partition in self.partitions for row in partition.to_pylist()]


@dataclass
class Truth(ABC):
    """What must come out; raises `AssertionError` where it does not."""

    operator: Operator
    orderly: bool = True
    """Whether rows of a partition come in the order they have there."""

    @abstractmethod
    def batch(self, batch: Input, before_ms: int, shown: list[Row]) -> None:
        """Compare a batch's output; the watermark of the batch before decides what is late."""

    @abstractmethod
    def state(self, held: list[Row]) -> None:
        """Compare the state in the end."""


@dataclass
class LedgerTruth(Truth):
    """Follows the chain."""

    known: dict[str, Row] = field(default_factory=dict)

    def batch(self, batch: Input, before_ms: int, shown: list[Row]) -> None:
        facts, mode = batch.facts, self.operator.time_mode
        now = (facts.watermark_ms or 0) if mode == "event" else facts.time_ms
        arrived: dict[str, int] = {}
        for row in batch.rows:
            arrived[row["key"]] = arrived.get(row["key"], 0) + 1
        updated = [row for row in shown if row["secret"] is not None]
        assert sorted(row["key"] for row in updated) == sorted(arrived), "keys with rows"
        for row in updated:
            before = self.known.get(row["key"], {"rows": 0, "secret": None})
            assert row["rows"] == before["rows"] + arrived[row["key"]], f"rows of {row['key']}"
            assert row["old_secret"] == before["secret"], f"the chain of {row['key']}"
            assert not (self.orderly and row["disorder"]), f"order of {row['key']}"
            self.known[row["key"]] = {"rows": row["rows"], "secret": row["secret"], "deadline": now + PATIENCE_MS}
        due = {key for key, each in self.known.items() if mode != "none" and each["deadline"] <= now}
        gone = {row["key"]: row for row in shown if row["secret"] is None}
        assert set(gone) == due and len(shown) == len(updated) + len(due), "keys whose time has come"
        for key in due:
            known = self.known.pop(key)
            assert (gone[key]["rows"], gone[key]["old_secret"]) == (known["rows"], known["secret"]), "the last word"

    def state(self, held: list[Row]) -> None:
        found = sorted((row["key.key"], row["value.rows"], row["value.secret"]) for row in held)
        assert found == sorted((key, each["rows"], each["secret"]) for key, each in self.known.items()), "the state"


@dataclass
class AggregateTruth(Truth):
    """Remembers every value."""

    known: dict[str, list[tuple[int, float]]] = field(default_factory=dict)

    def batch(self, batch: Input, before_ms: int, shown: list[Row]) -> None:
        keys = set()
        for row in batch.rows:
            keys.add(row["key"])
            self.known.setdefault(row["key"], []).append((row["number"], row["part"]))
        assert sorted(row["key"] for row in shown) == sorted(keys), "keys with rows"
        for row in shown:
            self._compare(row)

    def state(self, held: list[Row]) -> None:
        assert sorted(row["key"] for row in held) == sorted(self.known), "keys held"
        for row in held:
            self._compare(row)

    def _compare(self, row: Row) -> None:
        numbers, parts = zip(*self.known[row["key"]], strict=True)
        exact = {"n": len(numbers), "total": sum(numbers), "low": min(numbers), "high": max(numbers)}
        for name, value in exact.items():
            assert row.get(name, value) == value, f"{name} of {row['key']}: {row[name]} in place of {value}"
        for name, value in {"sum": math.fsum(parts), "mean": math.fsum(parts) / len(parts)}.items():
            assert math.isclose(row.get(name, value), value, rel_tol=1e-9), f"{name} of {row['key']}"


@dataclass
class WindowTruth(Truth):
    """Keeps open windows, by key and start in milliseconds."""

    known: dict[tuple[str, int], list[int]] = field(default_factory=dict)

    def batch(self, batch: Input, before_ms: int, shown: list[Row]) -> None:
        watermark, changed = batch.facts.watermark_ms or 0, set()
        for row in batch.rows:
            first = _milliseconds(row["time"]) // SLIDE_MS * SLIDE_MS
            for start in range(first - WINDOW_MS + SLIDE_MS, first + 1, SLIDE_MS):
                if start + WINDOW_MS > before_ms:
                    self.known.setdefault((row["key"], start), []).append(row["number"])
                    changed.add((row["key"], start))
        closed = {window for window in self.known if window[1] + WINDOW_MS <= watermark}
        self._compare(shown, changed if self.operator.output_mode == "update" else closed)
        for window in closed:
            del self.known[window]

    def state(self, held: list[Row]) -> None:
        self._compare(held, set(self.known))

    def _compare(self, rows: list[Row], windows: set[tuple[str, int]]) -> None:
        found = {(row["key"], _milliseconds(row["window"]["start"])): (row["n"], row["total"]) for row in rows}
        assert len(found) == len(rows), "a window twice"
        assert found == {each: (len(self.known[each]), sum(self.known[each])) for each in windows}, "windows"


def _milliseconds(instant: datetime) -> int:
    return round((instant - datetime(1970, 1, 1)).total_seconds() * 1000)


OPERATORS: dict[str, Operator] = {
    "chain": Ledger(),
    "chain, processing time": Ledger("processing"),
    "chain, event time": Ledger("event"),
    "integers": Aggregate(n="count", total="sum(number)", low="min(number)", high="max(number)"),
    "floats": Aggregate(n="count", sum="sum(part)", mean="mean(part)"),
    "windows, append": WindowAggregate("4 seconds", "2 seconds", n="count", total="sum(number)"),
    "windows, update": WindowAggregate("4 seconds", "2 seconds", output_mode="update", n="count", total="sum(number)"),
}


def operator_and_truth(name: str, orderly: bool = True) -> tuple[Operator, Truth]:
    """Return an operator, bound, and who knows what it must return."""
    operator = OPERATORS[name].bind(SCHEMA, ("key",))
    kinds: dict[type, type[Truth]] = {
        Ledger: LedgerTruth,
        Aggregate: AggregateTruth,
        WindowAggregate: WindowTruth,
    }
    return operator, kinds[type(operator)](operator, orderly)
