"""Pairs within a time window, against all pairs compared one by one."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError, ColumnError
from unskew.operators import SelfJoin
from unskew.testing import check_operator, disturbed, run

START = datetime(2024, 1, 1)
SCHEMA = pa.schema({"stock": pa.string(), "at": pa.timestamp("us"), "id": pa.int64()})
CELLS = pa.schema([*SCHEMA, ("cell", pa.int64()), ("leads", pa.bool_()), ("follows", pa.bool_())])
OTHER_WATERMARK = SCHEMA.with_metadata({b"unskew.event_time": b"id"})
WITHIN, DELAY = 7, 5


def table(rows: list[tuple[str | None, float | None, int]]) -> pa.Table:
    columns = [
        [stock for stock, _, _ in rows],
        [None if at is None else START + timedelta(seconds=at) for _, at, _ in rows],
        [number for _, _, number in rows],
    ]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def numbered(batches: list[list[tuple[Any, Any]]]) -> list[list[tuple[Any, Any, int]]]:
    numbers = iter(range(10**9))
    return [[(stock, at, next(numbers)) for stock, at in rows] for rows in batches]


def reference(
    batches: list[list[tuple[Any, Any, int]]], delay: float | None
) -> tuple[list[set[tuple[int, int]]], list[int]]:
    """Compare all pairs; a row is late if it lies at or before the watermark of the batch before."""
    before, watermark, kept, found, late = -1e9, -1e9, [], [], []
    for rows in batches:
        usable = [row for row in rows if None not in row]
        new = [row for row in usable if delay is None or row[1] > before]
        late.append(sum(row[1] is not None and delay is not None and row[1] <= before for row in rows))
        pairs = {
            (left[2], right[2])
            for left in kept + new
            for right in kept + new
            if left[0] == right[0] and 0 <= right[1] - left[1] <= WITHIN and (left in new or right in new)
        }
        found.append(pairs)
        kept += new
        before = watermark
        times = [row[1] for row in rows if row[1] is not None]
        if delay is not None and times:
            watermark = max(watermark, max(times) - delay)
    return found, late


def pairs_of(outputs: list[pa.Table]) -> list[set[tuple[int, int]]]:
    sets = [set(zip(out["left_id"].to_pylist(), out["right_id"].to_pylist(), strict=True)) for out in outputs]
    assert [len(pairs) for pairs in sets] == [out.num_rows for out in outputs], "no pair comes twice"
    return sets


ROWS = st.tuples(st.sampled_from(["a", "b", None]), st.none() | st.integers(0, 40).map(lambda n: n / 2))


@given(batches=st.lists(st.lists(ROWS, max_size=12), min_size=1, max_size=5), with_watermark=st.booleans())
@settings(max_examples=20)
def test_equals_all_pairs_compared(batches: list[list[tuple[Any, Any]]], with_watermark: bool) -> None:
    rows = numbered(batches)
    watermark = ("at", f"{DELAY} seconds") if with_watermark else None
    result = run(SelfJoin("at", f"{WITHIN} seconds"), list(map(table, rows)), key="stock", watermark=watermark)
    expected, late = reference(rows, DELAY if with_watermark else None)
    assert pairs_of(result.outputs) == expected
    assert list(result.late_rows) == late


def stream(seed: int, exponent: float | None, batches: int = 6, rows: int = 80) -> list[pa.Table]:
    """Time goes on, out of order and at times too late; the popular keys change half way."""
    random, tables, number = np.random.default_rng(seed), [], 0
    for batch in range(batches):
        ranks = random.integers(0, 9, rows) if exponent is None else random.zipf(exponent, rows) % 9
        stocks = (ranks + (4 if batch >= batches // 2 else 0)) % 9
        at = 10 * batch + random.uniform(0, 10, rows) - random.exponential(4, rows)
        tables.append(
            table(
                [
                    (
                        None if stock == 8 else f"s{stock}",
                        None if random.random() < 0.05 else max(0.0, float(t)),
                        number + i,
                    )
                    for i, (stock, t) in enumerate(zip(stocks.tolist(), at.round(3), strict=True))
                ]
            )
        )
        number += rows
    return tables


@pytest.mark.parametrize("exponent", [None, 1.5], ids=["uniform", "zipf"])
def test_drift_moves_and_late_rows(exponent: float | None) -> None:
    batches = stream(1, exponent)
    plain = [
        [(row["stock"], None if row["at"] is None else (row["at"] - START).total_seconds(), row["id"]) for row in rows]
        for rows in (batch.to_pylist() for batch in batches)
    ]
    steps = disturbed(batches, key="stock", channels=3, seed=2)
    rough = run(SelfJoin("at", "7 seconds"), steps, key="stock", channels=3, watermark=("at", "5 seconds"), seed=2)
    expected, late = reference(plain, DELAY)
    assert pairs_of(rough.outputs) == expected
    assert list(rough.late_rows) == late
    assert sum(late) > 0


def test_has_the_properties_of_an_operator() -> None:
    batches = stream(3, 1.5, batches=3, rows=40)
    check_operator(SelfJoin("at", "7 seconds"), batches, key="stock", watermark=("at", "5 seconds"), seeds=2)


def test_rows_are_forgotten_when_none_can_join_them() -> None:
    batches = [table([("a", 100.0 * n, n), ("b", 100.0 * n, n)]) for n in range(5)]
    state = run(SelfJoin("at", "7 seconds"), batches, key="stock", watermark=("at", "5 seconds")).state
    # rows of the last batch may lie at any time after 195 seconds, the watermark of the one before
    assert state["value.id"].to_pylist() == [[2, 3, 4], [2, 3, 4]]
    assert run(SelfJoin("at", "7 seconds"), batches, key="stock").state["value.id"].to_pylist() == [[0, 1, 2, 3, 4]] * 2


def test_a_condition_keeps_some_pairs_and_the_columns_asked_for_are_shown() -> None:
    rows = table([("a", 0, 1), ("a", 1, 2), ("a", 1, 3)])
    operator = SelfJoin("at", "7 seconds", columns=["id"], where=pc.field("left_id") < pc.field("right_id"))
    output = run(operator, [rows], key="stock").outputs[0]
    assert output.column_names == ["stock", "left_id", "right_id"]
    assert pairs_of([output]) == [{(1, 2), (1, 3), (2, 3)}]


def test_a_hot_key_in_cells_gives_the_same_pairs() -> None:
    """Rows of a salt lead in a row of cells and follow in a column of cells; each pair meets in one cell."""
    batches, salts = stream(5, 1.5, batches=4), 3
    cells = []
    for batch in batches:
        rows = [
            {**row, "cell": cell, "leads": cell // salts == salt, "follows": cell % salts == salt}
            for row in batch.to_pylist()
            for salt in [row["id"] % salts]
            for cell in range(salts**2)
            if salt in (cell // salts, cell % salts)
        ]
        cells.append(pa.Table.from_pylist(rows, CELLS))
    whole, cut = SelfJoin("at", "7 seconds"), SelfJoin("at", "7 seconds", sides=["leads", "follows"])
    expected = run(whole, batches, key="stock", watermark=("at", "5 seconds"))
    got = run(cut, cells, key=["stock", "cell"], watermark=("at", "5 seconds"))
    assert got.outputs[0].column_names == ["stock", "cell", "left_at", "left_id", "right_at", "right_id"]
    assert pairs_of(got.outputs) == pairs_of(expected.outputs)


def test_work_is_shared_out_by_pairs() -> None:
    from unskew.hashing import hash_keys
    from unskew.operators import Clock
    from unskew.state import KeyedState, MemoryStore

    rows = table([("a", n / 100, n) for n in range(100)] + [(f"b{n}", 0, n) for n in range(100)])
    operator = SelfJoin("at", "7 seconds", pair_seconds=1e-6).bind(rows.schema, ("stock",))
    state = KeyedState.open(
        MemoryStore(), operator.key_schema, operator.value_schema, slots=4, deadline=operator.deadline
    )
    made = operator.update(state, state.group(rows, hash_keys(rows, "stock")), rows, Clock(0, 0))
    assert made.seconds is not None
    assert made.seconds[0] > 10 * made.seconds[1:].sum()


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: SelfJoin("at", "soon"), ArgumentError, "not a duration"),
        (lambda: SelfJoin("at", "-1 second"), ArgumentError, "may not lie before"),
        (lambda: SelfJoin("at", "1 second", sides=["id"]), ArgumentError, "two sides"),
        (
            lambda: run(SelfJoin("at", "1 second", sides=["id", "id"]), [table([])], key="stock"),
            ColumnError,
            "must be a boolean",
        ),
        (lambda: SelfJoin("at", "1 second", where=True), ArgumentError, "an Arrow expression"),
        (lambda: SelfJoin("at", "1 second", where="left_id plus 1"), ArgumentError, "compares two columns"),
        (lambda: SelfJoin("at", "1 second", pair_seconds=-1), ArgumentError, "negative time"),
        (lambda: run(SelfJoin("when", "1 second"), [table([])], key="stock"), ColumnError, "no column"),
        (lambda: run(SelfJoin("id", "1 second"), [table([])], key="stock"), ColumnError, "a timestamp"),
        (lambda: run(SelfJoin("at", "1 second", columns=["x"]), [table([])], key="stock"), ColumnError, "no column"),
        (
            lambda: run(SelfJoin("at", "1 second", where=pc.field("id") > 1), [table([])], key="stock"),
            ArgumentError,
            "condition does not work",
        ),
        (lambda: SelfJoin("at", "1 second").bind(OTHER_WATERMARK, ("stock",)), ArgumentError, "watermark is on 'id'"),
    ],
)
def test_what_cannot_work_is_refused(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_is_a_plain_value() -> None:
    operator = SelfJoin("at", "7 seconds", columns=["id"], where=pc.field("left_id") < pc.field("right_id"))
    assert repr(operator) == "SelfJoin('at', '7 seconds', columns=('id',), where=(left_id < right_id))"
    assert pickle.loads(pickle.dumps(operator)) == operator != SelfJoin("at", "7 seconds")


@pytest.mark.parametrize(
    "text", ["left_id < right_id", " left_id<=right_id", "left_id!=right_id", "left_id = right_id"]
)
def test_a_condition_may_be_said_in_words(text: str) -> None:
    spelled = {"<": "__lt__", "<=": "__le__", "!=": "__ne__", "=": "__eq__"}
    sign = text.replace("left_id", "").replace("right_id", "").strip()
    said = getattr(pc.field("left_id"), spelled[sign])(pc.field("right_id"))
    assert SelfJoin("at", "1 second", where=text) == SelfJoin("at", "1 second", where=said)
