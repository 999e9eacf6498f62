"""Operators: rows per second inside them, and whole queries beside Spark's own way.

A new operator is one more entry in `unskew_lab.bench.operator_subjects.SUBJECTS`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from unskew.hashing import hash_keys
from unskew.operators import Clock, Operator
from unskew.operators.base import EVENT_TIME_METADATA
from unskew.state import KeyedState, MemoryStore, group_rows
from unskew_lab.bench.harness import Benchmark, Row, interleave
from unskew_lab.bench.operator_pairs import CASES, QUICK_CASES, pairs
from unskew_lab.bench.operator_queries import OURS, beside_python, beside_spark
from unskew_lab.bench.operator_subjects import FIRST_SECOND, SECONDS_PER_BATCH, SHAPES, SUBJECTS, Subject, batch_rows
from unskew_lab.bench.operator_tpch import query_5

SLOTS = 4096


class OperatorsBenchmark(Benchmark):
    """Every operator of `SUBJECTS` on uniform and on Zipf 1.2 keys, self-joins, and TPC-H's query 5.

    Inside: what `combine`, `update` and `expire` take for a batch on one channel that holds the keys already, in time
    of the processor; "all told" adds hashing, grouping and the commit. Whole: the median time of a batch, contenders by
    turns on the same files.
    """

    name: ClassVar[str] = "operators"
    summary: ClassVar[str] = "rows per second inside operators, and whole queries beside Spark's own"

    def run(self, quick: bool) -> list[Row]:
        rows, repeats = (100_000, 3) if quick else (500_000, 5)
        results = [row for subject in SUBJECTS for row in inside(subject, rows, repeats)]
        if quick:
            return results + pairs(QUICK_CASES)
        results += beside_spark(SUBJECTS, rows // 2) + beside_python(SUBJECTS, 2 * rows // 5)
        return results + pairs(CASES) + query_5(scale=1.0)


def inside(subject: Subject, rows: int, repeats: int) -> list[Row]:
    """Measure one channel, without Spark."""
    results = []
    for shape, exponent in SHAPES.items():
        attempts = _attempts(subject, rows, exponent)
        contenders = {"inside": partial(_next, attempts, False), "all told": partial(_next, attempts, True)}
        times = interleave(contenders, repeats=repeats, clock=time.process_time)
        for part, timing in times.items():
            results.append(
                Row(
                    f"{subject.name}, {shape}, {part}",
                    OURS,
                    rows / timing.median_seconds / 1e6,
                    "M rows/s",
                    target=subject.target if part == "inside" else None,
                    samples=timing.rates(rows / 1e6),
                )
            )
    return results


def _attempts(subject: Subject, rows: int, exponent: float) -> Iterator[Callable[[bool], None]]:
    """Yield functions that run the same batch on the same state."""
    first, second = (batch_rows(number, rows, exponent) for number in range(2))
    schema = first.schema if subject.watermark is None else first.schema.with_metadata({EVENT_TIME_METADATA: "ts"})
    operator, store = subject.operator.bind(schema, ("key",)), MemoryStore()
    ends = [(FIRST_SECOND + SECONDS_PER_BATCH * batch) * 1000 for batch in (-4, -3, -2)]
    with _opened(operator, store) as state:
        _run(operator, state, *_arrived(operator, first), Clock(0, 0, ends[1], ends[0]))
        state.commit("first")
    arrived = _arrived(operator, second)
    while True:
        state = _opened(operator, store.copy())

        def attempt(all_told: bool, state: KeyedState = state) -> None:
            given = _arrived(operator, second) if all_told else arrived
            _run(operator, state, *given, Clock(1, 0, ends[2], ends[1]))
            if all_told:
                state.commit("second")

        yield attempt


def _next(attempts: Iterator[Callable[[bool], None]], all_told: bool) -> None:
    next(attempts)(all_told)


def _arrived(operator: Operator, rows: pa.Table) -> tuple[pa.Table, Any]:
    return rows, group_rows(rows, hash_keys(rows, "key"), ["key"])


def _run(operator: Operator, state: KeyedState, rows: pa.Table, groups: Any, clock: Clock) -> None:
    combined, groups = operator.combine(rows, groups)
    operator.update(state, groups, combined, clock)
    operator.expire(state, clock)


def _opened(operator: Operator, store: MemoryStore) -> KeyedState:
    return KeyedState.open(store, operator.key_schema, operator.value_schema, slots=SLOTS, deadline=operator.deadline)
