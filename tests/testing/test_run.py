"""The testing kit finds nothing wrong with a right operator, and finds out a wrong one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from unskew.errors import ArgumentError, ColumnError
from unskew.operators import Aggregate, Clock, Operator
from unskew.state import Groups, KeyedState
from unskew.testing import ABORT, ADVANCE, MOVE, MOVE_SLOT, RESTART, disturbed, run


class History(Operator):
    """Keeps all values of a key in their order; forgets keys that had none for five seconds, and says so."""

    deadline = "until"
    time_mode = "processing"

    @property
    def value_schema(self) -> pa.Schema:
        return pa.schema({"values": pa.list_(pa.int64()), "until": pa.int64()})

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema([*self.key_schema, pa.field("values", pa.list_(pa.int64())), pa.field("over", pa.bool_())])

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table:
        held, _ = state.get(groups)
        new = rows["value"].take(pa.array(groups.order)).to_pylist()
        values = [
            (old or []) + new[start:stop]
            for old, start, stop in zip(held["values"].to_pylist(), groups.starts[:-1], groups.starts[1:], strict=True)
        ]
        until = np.full(len(groups), clock.processing_time_ms + 5000)
        state.put(groups, pa.table({"values": values, "until": until}, schema=self.value_schema))
        return self._output(groups.keys, values, over=False)

    def expire(self, state: KeyedState, clock: Clock) -> pa.Table:
        due = state.due(clock.processing_time_ms)
        held, _ = state.get(due)
        state.remove(due)
        return self._output(due.keys, held["values"].to_pylist(), over=True)

    def _output(self, keys: pa.Table, values: list[list[int]], *, over: bool) -> pa.Table:
        return pa.Table.from_arrays(
            [*keys.columns, pa.array(values, pa.list_(pa.int64())), pa.array([over] * len(values), pa.bool_())],
            schema=self.output_schema,
        )


class Forgetful(History):
    """Wrong: it counts in the operator, which a failed attempt does not take back."""

    seen = 0

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table:
        self.seen += rows.num_rows
        return self._output(groups.keys, [[self.seen]] * len(groups), over=False)


def batches(seed: int, count: int = 8) -> list[pa.Table]:
    random = np.random.default_rng(seed)
    return [
        pa.table({"user": random.integers(0, 12, n), "value": random.integers(0, 99, n)})
        for n in random.integers(0, 25, count)
    ]


def test_values_arrive_in_order_and_keys_time_out() -> None:
    rows = [pa.table({"user": users, "value": values}) for users, values in [([1, 2, 1], [7, 8, 9]), ([1], [5])]]
    nothing = rows[0].slice(0, 0)
    result = run(History(), [*rows, ADVANCE(3500), nothing, ADVANCE(600), nothing], key="user")
    assert [output.to_pylist() for output in result.outputs] == [
        [{"user": 1, "values": [7, 9], "over": False}, {"user": 2, "values": [8], "over": False}],
        [{"user": 1, "values": [7, 9, 5], "over": False}],
        [{"user": 2, "values": [8], "over": True}],
        [{"user": 1, "values": [7, 9, 5], "over": True}],
    ]
    assert result.state.num_rows == 0


@pytest.mark.parametrize("seed", range(6))
def test_a_right_operator_is_the_same_whatever_happens(seed: int) -> None:
    channels = 1 + seed % 4
    steps = disturbed(batches(seed), key="user", channels=channels, seed=seed)
    rough = run(History(), steps, key="user", channels=channels, seed=seed)
    smooth = run(History(), batches(seed), key="user")
    assert rough == smooth
    assert rough.attempts == len(batches(seed)) + sum(isinstance(step, ABORT) for step in steps)


def test_a_wrong_operator_is_found_out() -> None:
    steps = [batch for rows in batches(1) for batch in (ABORT(), rows)]
    smooth = run(Forgetful(), batches(1), key="user")
    # a batch that fails after its record was written is not computed again, so not every seed finds it out
    assert any(run(Forgetful(), steps, key="user", seed=seed) != smooth for seed in range(5))


def test_moves_put_keys_where_they_belong() -> None:
    rows = pa.table({"user": ["ada", "bob", "eve"], "day": [1, 1, 2]})
    steps = [rows, MOVE(("ada", 1), to=1), MOVE(("bob", 1), to=0), MOVE_SLOT(0, to=1), RESTART(), ABORT(), rows]
    result = run(Aggregate(n="count"), steps, key=("user", "day"), channels=2, slots=2, seed=3)
    assert result == run(Aggregate(n="count"), [rows, rows], key=("user", "day"))
    assert result.state["value.n"].to_pylist() == [2, 2, 2]


def test_a_nan_that_comes_to_the_sink_twice_is_the_same() -> None:
    rows = pa.table({"user": [1], "value": [float("nan")]})
    for seed in range(20):
        result = run(Aggregate(most="max(value)"), [ABORT(), rows], key="user", seed=seed)
        assert repr(result.outputs[0].to_pylist()) == "[{'user': 1, 'most': nan}]"


def test_the_same_seed_gives_the_same_steps() -> None:
    rows = batches(0)
    first, again, other = (disturbed(rows, key="user", channels=3, seed=seed) for seed in (1, 1, 2))
    assert repr(first) == repr(again) != repr(other)


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ([], ArgumentError),
        ([RESTART()], ArgumentError),
        ([batches(0)[0], "rows"], ArgumentError),
        ([MOVE(("ada", 1), to=0), batches(0)[0]], ArgumentError),
        ([pa.table({"usr": [1]})], ColumnError),
    ],
)
def test_mistakes_in_the_steps_are_told(steps: list[object], error: type[Exception]) -> None:
    with pytest.raises(error):
        run(Aggregate(n="count"), steps, key="user")
