"""`check_operator` passes right operators, and finds out operators that are broken in each of the ways it names."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from unskew.errors import ArgumentError
from unskew.operators import Aggregate, Clock, Operator
from unskew.state import Groups, KeyedState
from unskew.testing import CheckError, check_operator
from unskew.testing.check import smallest
from unskew.testing.compare import difference

MINUTE_US = 60_000_000


def batches(count: int = 3, rows: int = 8, seed: int = 0) -> list[pa.Table]:
    random = np.random.default_rng(seed)
    users = [f"u{n}" for n in range(5)] + [None]
    return [
        pa.table(
            {
                "user": [users[n] for n in random.integers(0, len(users), rows)],
                "value": pa.array(random.integers(0, 9, rows), mask=random.random(rows) < 0.1),
                "ts": pa.array(random.integers(0, 10 * MINUTE_US, rows) + batch * 5 * MINUTE_US, pa.timestamp("us")),
            }
        )
        for batch in range(count)
    ]


class Seen(Operator):
    """Right: yields every row with its number among the rows of its key; forgets keys that were silent for an hour."""

    output_mode = "append"
    time_mode = "event"
    deadline = "until"

    @property
    def value_schema(self) -> pa.Schema:
        return pa.schema({"n": pa.int64(), "until": pa.int64()})

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema([*self.key_schema, pa.field("n", pa.int64())])

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table:
        held, _ = state.get(groups)
        before = held["n"].fill_null(0).to_numpy()
        state.put(groups, self.state_after(before + groups.counts, clock))
        rank = np.arange(rows.num_rows) - np.repeat(groups.starts[:-1], groups.counts)
        group = groups.group_of_row[groups.order]
        keys = groups.keys.take(pa.array(group))
        return pa.Table.from_arrays([*keys.columns, pa.array(before[group] + rank + 1)], schema=self.output_schema)

    def state_after(self, n: np.ndarray, clock: Clock) -> pa.Table:
        until = np.full(len(n), (clock.watermark_ms or 0) + 3_600_000)
        return pa.table({"n": n, "until": until})

    def expire(self, state: KeyedState, clock: Clock) -> pa.Table:
        state.remove(state.due(clock.watermark_ms or 0))
        return self.output_schema.empty_table()


class InTheOperator(Seen):
    """Wrong: counts in the operator."""

    seen = 0

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table:
        self.seen += rows.num_rows
        state.put(groups, self.state_after(np.full(len(groups), self.seen), clock))
        keys = groups.keys
        return pa.Table.from_arrays(
            [*keys.columns, pa.array(np.full(len(groups), self.seen))], schema=self.output_schema
        )


class OtherHashes(Seen):
    """Wrong: puts state where the key's owner will not look for it."""

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table:
        return super().update(state, Groups(groups.hashes + 1, groups.keys, groups.group_of_row), rows, clock)


class PerChannel(Seen):
    """Wrong: says how many rows its channel has seen, which is not a matter of keys."""

    def expire(self, state: KeyedState, clock: Clock) -> pa.Table:
        super().expire(state, clock)
        seen = sum(sum(part["value.n"].to_pylist()) for part in state.scan())
        return pa.table({"user": ["all"], "n": [seen]}, schema=self.output_schema)


class YieldsOnce(Seen):
    """Wrong: remembers outside of its state what it has yielded, also in attempts that fail."""

    yielded: ClassVar[set[tuple[int, str]]] = set()

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table:
        output = super().update(state, groups, rows, clock)
        if clock.batch_id == 0:
            self.yielded.clear()
        known = (clock.batch_id, str(rows.to_pylist())) in self.yielded
        self.yielded.add((clock.batch_id, str(rows.to_pylist())))
        return output.slice(0, 0) if known else output


class Immortal(Seen):
    """Wrong: never forgets."""

    def expire(self, state: KeyedState, clock: Clock) -> pa.Table:
        return self.output_schema.empty_table()


class MinusAggregate(Aggregate):
    """Wrong: merges by subtraction, which is neither associative nor commutative."""

    def merge(self, values: pa.Table, groups: Groups) -> pa.Table:
        merged = super().merge(values, groups)["n"].to_numpy()
        first = np.zeros(len(groups), np.int64)
        filled = values["n"].fill_null(0).to_numpy()
        first[groups.group_of_row[::-1]] = filled[::-1]
        return pa.table({"n": 2 * first - merged})


class LastAggregate(Aggregate):
    """Wrong: keeps the last part, and says that order does not matter."""

    def merge(self, values: pa.Table, groups: Groups) -> pa.Table:
        latest, known = np.full(len(groups), -1), values["n"].is_valid().to_numpy()
        latest[groups.group_of_row[known]] = values["n"].drop_null().to_numpy()
        return pa.table({"n": pa.array(latest, mask=latest < 0)})

    def lift(self, rows: pa.Table, groups: Groups) -> pa.Table:
        return self.merge(pa.table({"n": rows["value"]}), groups)


class NullsCount(Aggregate):
    """Wrong: takes a state that is all null for a row."""

    def merge(self, values: pa.Table, groups: Groups) -> pa.Table:
        return super().merge(pa.table({"n": values["n"].fill_null(1)}), groups)


class Hoarder(Aggregate):
    """Wrong: says that its memory is constant, and keeps every value."""

    memory = "constant"

    @property
    def value_schema(self) -> pa.Schema:
        return pa.schema({"all": pa.list_(pa.int64())})

    def lift(self, rows: pa.Table, groups: Groups) -> pa.Table:
        return self.merge(pa.table({"all": pa.array([[1]] * rows.num_rows, pa.list_(pa.int64()))}), groups)

    def merge(self, values: pa.Table, groups: Groups) -> pa.Table:
        lists: list[list[int]] = [[] for _ in range(len(groups))]
        for group, some in zip(groups.group_of_row.tolist(), values["all"].to_pylist(), strict=True):
            lists[group] += some or []
        return pa.table({"all": lists}, schema=self.value_schema)

    def finish(self, keys: pa.Table, values: pa.Table) -> pa.Table:
        counts = [len(some) for some in values["all"].to_pylist()]
        return pa.Table.from_arrays([*keys.columns, pa.array(counts, pa.int64())], schema=self.output_schema)


OTHER_BATCHES = "the same rows in other batches give the same result"
INSTALLED = "extracted state can be installed elsewhere"
MERGED = "states can be merged in any grouping and claimed order"
MOVED = "a run in which keys move equals one in which they do not"
AGAIN = "a batch that fails and runs again leaves no trace"
BOUNDED = "memory is bounded"


def test_right_operators_pass() -> None:
    check_operator(Seen(), batches(), key="user", watermark=("ts", "5 minutes"))
    check_operator(Aggregate(n="count", mean="mean(value)"), batches(), key=["user", "value"], seeds=2)


@pytest.mark.parametrize(
    ("operator", "failing"),
    [
        (InTheOperator(), OTHER_BATCHES),
        (OtherHashes(), INSTALLED),
        (MinusAggregate(n="count"), MERGED),
        (LastAggregate(n="count"), MERGED),
        (NullsCount(n="count"), MERGED),
        (PerChannel(), OTHER_BATCHES),
        (YieldsOnce(), AGAIN),
        (Immortal(), BOUNDED),
        (Hoarder(n="count"), BOUNDED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Operator) else "",
)
def test_broken_operators_are_found_out(operator: Operator, failing: str) -> None:
    with pytest.raises(CheckError) as caught:
        check_operator(operator, batches(), key="user", watermark=("ts", "5 minutes"), seeds=2)
    assert caught.value.property_name == failing
    assert failing in str(caught.value)
    assert sum(batch.num_rows for batch in caught.value.batches) <= 3, "shows a small example"


def test_an_order_that_matters_may_be_claimed() -> None:
    class Ordered(LastAggregate):
        def check(self) -> None:
            super().check()
            self.commutative = False

    check_operator(Ordered(n="count"), batches(), key="user")


def test_an_error_in_a_disturbed_run_is_shown() -> None:
    class Fragile(Seen):
        def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table:
            if not rows.num_rows:
                raise ZeroDivisionError("no rows")
            return super().update(state, groups, rows, clock)

    with pytest.raises(CheckError, match="it raises ZeroDivisionError: no rows"):
        check_operator(Fragile(), batches(), key="user", watermark=("ts", "5 minutes"))


def test_results_may_be_equal_within_a_bound() -> None:
    class Rough(Aggregate):
        def finish(self, keys: pa.Table, values: pa.Table) -> pa.Table:
            noise = np.random.default_rng().integers(0, 2, len(values))
            return super().finish(keys, pa.table({"n": values["n"].to_numpy() + noise}))

    def near(expected: pa.Table, got: pa.Table) -> bool:
        one, other = (dict(zip(*table.to_pydict().values(), strict=True)) for table in (expected, got))
        return one.keys() == other.keys() and all(abs(one[key] - other[key]) <= 1 for key in one)

    check_operator(Rough(n="count"), batches(), key="user", same=near)
    with pytest.raises(CheckError):
        check_operator(Rough(n="count"), batches(), key="user")


def test_rows_are_needed() -> None:
    with pytest.raises(ArgumentError, match="no rows to check"):
        check_operator(Aggregate(n="count"), [batches()[0].slice(0, 0)], key="user")


def test_difference_matches_rows_and_allows_for_rounding() -> None:
    left = pa.table({"user": ["ada", "bob", "bob"], "x": [1.0, float("nan"), 2.0]})
    right = pa.table({"user": ["bob", "bob", "ada"], "x": [2.0 + 1e-12, float("nan"), 1.0]})
    assert difference(left, right, 1e-9) is None
    assert difference(left, right, 0.0) is not None
    assert difference(left, left.slice(1), 0.0) == "expected {'user': 'ada', 'x': 1.0}\ngot      no such row"
    assert difference(left.slice(1), left, 0.0) == "expected no such row\ngot      {'user': 'ada', 'x': 1.0}"
    lists = pa.table({"user": ["ada"], "x": [[1.0, 2.0]]})
    assert difference(lists, pa.table({"user": ["ada"], "x": [[1.0, 2.0 + 1e-12]]}), 1e-9) is None
    assert difference(lists, pa.table({"user": ["ada"], "x": [[1.0]]}), 1e-9) is not None


def test_smallest_stops_where_nothing_can_be_left_out() -> None:
    rows = [pa.table({"n": list(range(start, start + 40))}) for start in (0, 40, 80)]

    def fails(some: list[pa.Table]) -> bool:
        values = {value for batch in some for value in batch["n"].to_pylist()}
        return {3, 77} <= values

    found = smallest(rows, fails, tries=1000)
    assert [batch["n"].to_pylist() for batch in found] == [[3], [77]]
    assert smallest(rows, fails, tries=0) == rows
