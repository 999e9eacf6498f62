"""A stream that looks keys up in a changing table, against a dictionary."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError, ColumnError
from unskew.operators import TableJoin
from unskew.testing import check_operator, disturbed, run

SCHEMA = pa.schema(
    {
        "user": pa.string(),
        "input": pa.string(),
        "users_city": pa.string(),
        "users_age": pa.int64(),
        "clicks_id": pa.int64(),
    }
)
USERS = st.sampled_from(["ada", "bob", None])
CHANGE = st.tuples(
    USERS, st.just("users"), st.none() | st.sampled_from(["Rome", "Oslo"]), st.integers(0, 99), st.none()
)
CLICK = st.tuples(USERS, st.just("clicks"), st.none(), st.none(), st.integers(0, 1000))


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


@given(
    batches=st.lists(st.lists(CHANGE | CLICK, max_size=12), min_size=1, max_size=4),
    how=st.sampled_from(["inner", "left"]),
)
@settings(max_examples=20)
def test_equals_a_dictionary(batches: list[list[tuple[Any, ...]]], how: Any) -> None:
    outputs = run(TableJoin("users", how=how), list(map(table, batches)), key="user").outputs
    known: dict[str, tuple[Any, Any]] = {}
    for rows, output in zip(batches, outputs, strict=True):
        expected = []
        for user, kind, city, age, click in rows:
            if kind == "users" and user is not None:
                known[user] = city, age
            elif kind == "clicks" and (user in known or how == "left"):
                expected.append((user, *known.get(user, (None, None)), click))
        assert sorted(map(repr, (tuple(row.values()) for row in output.to_pylist()))) == sorted(map(repr, expected))


BATCHES = [
    table([("ada", "users", "Rome", 36, None), ("ada", "clicks", None, None, 1), ("bob", "clicks", None, None, 2)]),
    table([("bob", "users", "Oslo", 20, None), (None, "clicks", None, None, 3), ("ada", "clicks", None, None, 4)]),
    table([("ada", "users", None, 37, None), ("ada", "clicks", None, None, 5), ("bob", "clicks", None, None, 6)]),
]


def test_has_the_properties_of_an_operator() -> None:
    check_operator(TableJoin("users", how="left"), BATCHES, key="user", seeds=2)


def test_later_changes_are_seen_while_keys_move() -> None:
    steps = disturbed(BATCHES, key="user", channels=3, seed=4)
    outputs = run(TableJoin("users"), steps, key="user", channels=3, seed=4).outputs
    assert [[tuple(row.values()) for row in output.to_pylist()] for output in outputs] == [
        [("ada", "Rome", 36, 1)],
        [("ada", "Rome", 36, 4)],
        [("ada", None, 37, 5), ("bob", "Oslo", 20, 6)],
    ]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: TableJoin("users", how="outer"), ArgumentError, "no such join"),  # type: ignore[arg-type]
        (lambda: TableJoin("shops").bind(SCHEMA, ("user",)), ColumnError, "table has no columns"),
        (lambda: TableJoin("users", input="kind").bind(SCHEMA, ("user",)), ColumnError, "no column"),
        (lambda: TableJoin("users", input="users_age").bind(SCHEMA, ("user",)), ColumnError, "must hold strings"),
    ],
)
def test_what_cannot_work_is_refused(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_is_a_plain_value() -> None:
    operator = TableJoin("users", how="left")
    assert repr(operator) == "TableJoin('users', how='left', input='input')"
    assert pickle.loads(pickle.dumps(operator)) == operator != TableJoin("users")
