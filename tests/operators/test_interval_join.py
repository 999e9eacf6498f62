"""Pairs of two streams, against all pairs compared one by one."""

from __future__ import annotations

import pickle
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.operators.interval_join import IntervalJoin
from unskew.testing import check_operator, disturbed, run

START = datetime(2024, 1, 1)
SCHEMA = pa.schema(
    {"k": pa.string(), "input": pa.string(), "time": pa.timestamp("us"), "l_id": pa.int64(), "r_id": pa.int64()}
)
DELAY = 5
INTERVALS = [(-2, 6), (-20, -8), (-4, 0), (2, 9)]  # the right row on either side of the left one, before it, after it

Row = tuple[Any, str, Any, int]


def table(rows: list[Row]) -> pa.Table:
    return pa.table(
        {
            "k": pa.array([key for key, _, _, _ in rows], pa.string()),
            "input": pa.array([side for _, side, _, _ in rows], pa.string()),
            "time": pa.array(
                [None if at is None else START + timedelta(seconds=at) for _, _, at, _ in rows], pa.timestamp("us")
            ),
            "l_id": pa.array([number if side == "l" else None for _, side, _, number in rows], pa.int64()),
            "r_id": pa.array([number if side == "r" else None for _, side, _, number in rows], pa.int64()),
        },
        schema=SCHEMA,
    )


def numbered(batches: list[list[tuple[Any, str, Any]]]) -> list[list[Row]]:
    numbers = iter(range(10**9))
    return [[(*row, next(numbers)) for row in rows] for rows in batches]


def reference(
    batches: list[list[Row]], how: str, interval: tuple[int, int] = INTERVALS[0]
) -> tuple[Counter, list[int]]:
    """Compare all pairs of rows that are not late; a left row that is alone counts once its time is over."""
    earliest, latest = interval
    before, watermark, kept, late = -1e9, -1e9, [], []
    for rows in batches:
        late.append(sum(row[2] is not None and row[2] <= before for row in rows))
        kept += [row for row in rows if row[2] is not None and row[2] > before]
        before = watermark
        times = [row[2] for row in rows if row[2] is not None]
        watermark = max([watermark, *(at - DELAY for at in times)])
    pairs = Counter()
    for left in [row for row in kept if row[1] == "l"]:
        partners = [
            row[3]
            for row in kept
            if row[1] == "r" and row[0] == left[0] is not None and earliest <= row[2] - left[2] <= latest
        ]
        pairs.update((left[0], left[3], partner) for partner in partners)
        if how == "left" and not partners and left[2] + latest <= before:
            pairs[left[0], left[3], None] += 1
    return pairs, late


def join(how: str = "inner", interval: tuple[int, int] = INTERVALS[0]) -> IntervalJoin:
    earliest, latest = interval
    return IntervalJoin("l", "r", earliest=f"{earliest} seconds", latest=f"{latest} seconds", how=how)


def pairs_of(outputs: list[pa.Table]) -> Counter:
    return Counter((row["k"], row["l_id"], row["r_id"]) for out in outputs for row in out.to_pylist())


ROWS = st.tuples(
    st.sampled_from(["a", "b", None]), st.sampled_from("lr"), st.sampled_from([None, *(n / 2 for n in range(41))])
)


@given(
    batches=st.lists(st.lists(ROWS, max_size=12), min_size=1, max_size=5),
    how=st.sampled_from(["inner", "left"]),
    interval=st.sampled_from(INTERVALS),
)
@settings(max_examples=50)
def test_equals_all_pairs_compared(
    batches: list[list[tuple[Any, str, Any]]], how: str, interval: tuple[int, int]
) -> None:
    rows = numbered(
        [
            [(key, side, None if at is None else at + 5 * batch) for key, side, at in rows]
            for batch, rows in enumerate(batches)
        ]
    )
    result = run(join(how, interval), list(map(table, rows)), key="k", watermark=("time", f"{DELAY} seconds"))
    expected, late = reference(rows, how, interval)
    assert pairs_of(result.outputs) == expected
    assert list(result.late_rows) == late


def test_a_left_row_whose_interval_is_over_when_it_comes_is_given() -> None:
    rows = numbered([[("a", "r", 20)], [("a", "r", 21)], [("a", "l", 17), ("a", "l", 30)]])
    result = run(join("left", (-20, -8)), list(map(table, rows)), key="k", watermark=("time", f"{DELAY} seconds"))
    assert pairs_of(result.outputs) == {("a", 2, None): 1, ("a", 3, 0): 1, ("a", 3, 1): 1}, "the watermark was at 15"


@pytest.mark.parametrize("interval", INTERVALS[:2])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_moves_aborts_and_restarts_change_nothing(how: str, interval: tuple[int, int]) -> None:
    import random

    dice = random.Random(4)
    rows = numbered(
        [
            [(f"k{int(dice.expovariate(0.5))}", dice.choice("lr"), 8 * batch + dice.uniform(-20, 8)) for _ in range(60)]
            for batch in range(7)
        ]
    )
    batches = list(map(table, rows))
    steps = disturbed(batches, key="k", channels=3, seed=2)
    rough = run(join(how, interval), steps, key="k", channels=3, watermark=("time", f"{DELAY} seconds"), seed=2)
    expected, late = reference(rows, how, interval)
    assert pairs_of(rough.outputs) == expected
    assert sum(late) > 0
    assert rough.state.num_rows < len({row[0] for batch in rows for row in batch}), "some keys are forgotten"
    check_operator(join(how, interval), batches[:3], key="k", watermark=("time", f"{DELAY} seconds"), seeds=1)


def test_columns_belong_to_the_stream_whose_name_they_bear() -> None:
    schema = pa.schema(
        {"k": pa.string(), "input": pa.string(), "time": pa.timestamp("us"), "a_x": pa.int64(), "a_b_x": pa.int64()}
    ).with_metadata({b"unskew.event_time": b"time"})
    bound = IntervalJoin("a", "a_b", earliest="0 seconds", latest="1 second").bind(schema, ("k",))
    assert bound.output_schema.names == ["k", "a_x", "a_b_x"]
    assert pickle.loads(pickle.dumps(bound)) == bound


def test_what_cannot_be_joined_is_refused() -> None:
    with pytest.raises(ArgumentError, match="must not end before it begins"):
        IntervalJoin("l", "r", earliest="1 second", latest="0 seconds")
    with pytest.raises(ArgumentError, match="no such join"):
        IntervalJoin("l", "r", earliest="0 seconds", latest="1 second", how="outer")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no common event time"):
        join().bind(SCHEMA, ("k",))
    with pytest.raises(ArgumentError, match="no stream of that name"):
        IntervalJoin("l", "x", earliest="0 seconds", latest="1 second").bind(
            SCHEMA.with_metadata({b"unskew.event_time": b"time"}), ("k",)
        )
