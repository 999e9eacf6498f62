"""Operators that give every mistake away, and what each of them has to return, in plain Python."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chaos.ledger import PATIENCE_MS, Ledger
from unskew.operators import (
    Aggregate,
    DecisionTree,
    HeaviestKeys,
    HeavyHitters,
    Histogram,
    History,
    IntervalJoin,
    NaiveBayes,
    NaiveBayesClassifier,
    Operator,
    ProgressiveSort,
    SelfJoin,
    SessionAggregate,
    TableJoin,
    WindowAggregate,
)
from unskew.operators.base import EVENT_TIME_METADATA
from unskew.runtime.jobs import Facts
from unskew.testing.compare import difference

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
WINDOW_MS, SLIDE_MS = 4000, 2000


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


@dataclass
class SmoothTruth(Truth):
    """Knows what a smooth run of the same rows gave: one channel, nothing moves, nothing fails.

    `tests/operators/test_matrix.py` compares smooth runs with a plain account of the rows.
    """

    shown: list[list[Row]] = field(default_factory=list)
    held: list[Row] = field(default_factory=list)

    def batch(self, batch: Input, before_ms: int, shown: list[Row]) -> None:
        self._compare(self.shown[batch.facts.batch_id], shown, self.operator.result_schema)

    def state(self, held: list[Row]) -> None:
        self._compare(self.held, held, None)

    @staticmethod
    def _compare(expected: list[Row], got: list[Row], schema: pa.Schema | None) -> None:
        if sorted(map(repr, expected)) != sorted(map(repr, got)):
            tables = (pa.Table.from_pylist(rows, schema) for rows in (expected, got))
            different = difference(*tables, 1e-9)
            assert different is None, different


@dataclass(frozen=True)
class Kind:
    """An operator of the model, and the columns that it reads; see `columns_of`."""

    operator: Operator
    columns: tuple[str, ...] = ("key", "source", "sequence", "number", "part", "time")
    key: str = "key"
    truth: type[Truth] = SmoothTruth

    @cached_property
    def bound(self) -> Operator:
        """The operator, bound."""
        return self.operator.bind(self.shape(SCHEMA.empty_table()).schema, (self.key,))

    def shape(self, rows: pa.Table) -> pa.Table:
        """Return rows of the stream with the columns that this operator reads."""
        if self.columns == tuple(SCHEMA.names):
            return rows
        made = columns_of(rows)
        timed = SCHEMA.metadata if "time" in self.columns else None
        return pa.table({name: made[name] for name in self.columns}).replace_schema_metadata(timed)


def columns_of(rows: pa.Table) -> dict[str, Any]:
    """Return the columns of the stream, and others that follow from them."""
    found = {name: rows.column(name).combine_chunks() for name in rows.column_names}
    number, sequence = found["number"], found["sequence"].to_numpy()
    odd = pa.array(sequence % 2 == 1, pa.bool_())
    labels = pc.if_else(odd, "x", "y")
    words = pa.array([f"w{value % 5}" for value in number.to_pylist()], pa.string())
    return found | {
        "id": pa.array(sequence * 10 + found["source"].to_numpy(), pa.int64()),
        "word": words,
        "words": pa.array(
            [list(pair) for pair in zip(words.to_pylist(), found["key"].to_pylist(), strict=True)],
            pa.list_(pa.string()),
        ),
        "label": labels,
        "told": pc.if_else(pa.array(sequence % 3 == 0, pa.bool_()), pa.scalar(None, pa.string()), labels),
        "input": pc.if_else(odd, "a", "b"),
        "a_number": pc.if_else(odd, number, pa.scalar(None, pa.int64())),
        "b_number": pc.if_else(odd, pa.scalar(None, pa.int64()), number),
    }


_PLAIN, _TIMED = ("key", "sequence", "number", "word"), ("key", "id", "number", "time")
_PAIRED = ("key", "input", "a_number", "b_number")
_SUMS = {"n": "count", "total": "sum(number)"}

KINDS: dict[str, Kind] = {
    "chain": Kind(Ledger(), truth=LedgerTruth),
    "chain-processing": Kind(Ledger("processing"), truth=LedgerTruth),
    "chain-event": Kind(Ledger("event"), truth=LedgerTruth),
    "integers": Kind(Aggregate(**_SUMS, low="min(number)", high="max(number)"), truth=AggregateTruth),
    "floats": Kind(Aggregate(n="count", sum="sum(part)", mean="mean(part)"), truth=AggregateTruth),
    "windows-append": Kind(WindowAggregate("4 seconds", "2 seconds", **_SUMS), truth=WindowTruth),
    "windows-update": Kind(WindowAggregate("4 seconds", "2 seconds", output_mode="update", **_SUMS), truth=WindowTruth),
    "sets": Kind(Aggregate(words="count_distinct(word)", some="collect_set(word, 3)", middle="median(number)"), _PLAIN),
    "sessions": Kind(SessionAggregate("2 seconds", **_SUMS), _TIMED),
    "history": Kind(History(3, n="count(number)", most="max(number)"), _PLAIN),
    "self-join": Kind(SelfJoin("time", "2 seconds", columns=["id"], where="left_id < right_id"), _TIMED),
    "interval-join": Kind(
        IntervalJoin("a", "b", earliest="-1 second", latest="2 seconds", how="left"), (*_PAIRED, "time")
    ),
    "table-join": Kind(TableJoin("a", how="left"), _PAIRED),
    "sort": Kind(ProgressiveSort("time"), _TIMED),
    "hitters": Kind(HeavyHitters("word", capacity=30), _PLAIN),
    "histogram": Kind(Histogram("number", bins=200), _PLAIN),
    "heaviest": Kind(HeaviestKeys(30, buckets=4), _PLAIN),
    "bayes": Kind(NaiveBayes("label", ["x", "y"]), ("word", "label"), key="word"),
    "answers": Kind(NaiveBayesClassifier("words", "told", ["x", "y"]), ("id", "words", "told"), key="id"),
    "tree": Kind(
        DecisionTree(["id", "number"], ["x", "y"], bins=200, candidates=10, min_rows=8, min_gain=0.0, max_leaves=4),
        ("id", "number", "label"),
        key="label",
    ),
}
