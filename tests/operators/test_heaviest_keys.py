"""The heaviest keys of a whole stream against exact counts."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError, KeyTypeError
from unskew.operators import HeaviestKeys
from unskew.planners import planner
from unskew.runtime.engine import Engine
from unskew.runtime.jobs import Facts
from unskew.runtime.log import RecordLog
from unskew.runtime.record import Output
from unskew.runtime.settings import Channels, Keeping, Planning, Settings, Splitting
from unskew.runtime.wire import unpack
from unskew.splitters import splitter
from unskew.testing import check_operator, disturbed, run
from unskew.testing.jobs import LocalJobs
from unskew.testing.place import MemoryFiles, MemoryPlace

SCHEMA = pa.schema({"url": pa.string()})

Rows = list[dict[str, Any]]


def assert_within_bounds(listed: Rows, true: Counter[Any], operator: HeaviestKeys) -> None:
    """Check everything that is promised of a list, whatever has happened to the sketches."""
    assert [row["rank"] for row in listed] == list(range(1, min(operator.k, len(true)) + 1))
    assert {row["rows"] for row in listed} <= {true.total()}
    counts = [row["count"] for row in listed]
    assert counts == sorted(counts, reverse=True)
    for row in listed:
        assert row["count"] - row["error"] <= true[row["url"]] <= row["count"]
        assert row["error"] <= true.total() / operator.capacity
    names = {row["url"] for row in listed}
    assert len(names) == len(listed)
    assert all(count <= counts[-1] for key, count in true.items() if key not in names)


class Query:
    """A query that is resized and started again between batches."""

    def __init__(self, operator: HeaviestKeys, channels: int, splitting: Splitting) -> None:
        self.operator, self.channels, self.splitting = operator.bind(SCHEMA, ("url",)), channels, splitting
        self.log, self.batches = RecordLog(MemoryFiles("memory", MemoryPlace())), 0
        self.shown: Rows = []
        self.restart()

    def restart(self) -> None:
        planning = Planning(planner("mixed", tolerance=0.0), min_gain=-np.inf)
        channels = Channels(self.channels, slots=16)
        chosen = Settings(channels, planning, self.splitting, Keeping(cache_bytes=0))
        self.engine = Engine(self.operator, chosen, self.log, "testing")

    def resize(self, channels: int) -> None:
        self.log.ask(channels=channels)

    def run(self, *partitions: pa.Table) -> Rows:
        self.engine.run(Facts(self.batches, f"batch {self.batches}", 0), LocalJobs(partitions), self._show)
        self.batches += 1
        return self.shown

    def _show(self, output: Output, batch_id: int) -> None:
        self.shown = [row for blob in output.inline for row in unpack(blob).to_pylist()]


def table(urls: Iterable[str | None]) -> pa.Table:
    return pa.table({"url": list(urls)}, schema=SCHEMA)


URL = st.sampled_from([*"abcdefghijkl", "a", "a", "b", None])
PARTITION = st.lists(URL, min_size=8, max_size=20) | st.just([])
BATCH = st.tuples(st.lists(PARTITION, min_size=1, max_size=4), st.integers(1, 5), st.booleans())
SPLITTINGS = [Splitting(), Splitting(auto=True), *(Splitting(scheme=splitter(name)) for name in ("pkg", "d-choices"))]


@given(
    batches=st.lists(BATCH, min_size=2, max_size=4),
    k=st.integers(1, 4),
    more=st.integers(0, 2),
    buckets=st.integers(1, 3),
    splitting=st.sampled_from(SPLITTINGS),
)
@settings(max_examples=20)
def test_bounds_hold_after_every_batch_over_any_channels(
    batches: list[tuple[list[list[str | None]], int, bool]], k: int, more: int, buckets: int, splitting: Splitting
) -> None:
    """Keys come in any partitions; buckets move with the load, are split, resized, and read again by new drivers."""
    operator, true = HeaviestKeys(k, capacity=k + more, buckets=buckets), Counter[Any]()
    query = Query(operator, batches[0][1], splitting)
    for partitions, channels, restarts in batches:
        if restarts:
            query.restart()
        query.resize(channels)
        true.update(url for urls in partitions for url in urls)
        assert_within_bounds(query.run(*map(table, partitions)), true, operator)


def stream(seed: int, exponent: float, batches: int = 5, rows: int = 600, keys: int = 200) -> list[pa.Table]:
    """Pages that become popular and unpopular again; the third one is null."""
    random, tables = np.random.default_rng(seed), []
    for batch in range(batches):
        pages = (random.zipf(exponent, rows) + 20 * (batch // 2)) % keys
        tables.append(table(None if page == 3 else f"/{page}" for page in pages.tolist()))
    return tables


def test_bounds_hold_whatever_dies_and_the_heaviest_are_found() -> None:
    batches, operator = stream(1, 1.4), HeaviestKeys(10, buckets=4)
    buckets = [operator.bind(SCHEMA, ("url",)).expand(rows) for rows in batches]
    given = iter(batches)
    steps = [
        next(given) if isinstance(step, pa.Table) else step
        for step in disturbed(buckets, key="bucket", channels=3, seed=4)
    ]
    assert len(steps) > 2 * len(batches)
    outputs = run(operator, steps, key="url", channels=3, seed=4).outputs
    true = Counter[Any]()
    for rows, output in zip(batches, outputs, strict=True):
        true.update(rows["url"].to_pylist())
        assert_within_bounds(sorted(output.to_pylist(), key=lambda row: row["rank"]), true, operator)
    assert any(row["error"] for row in outputs[-1].to_pylist()), "sketches were full"
    heaviest = {url for url, _ in true.most_common(5)}
    assert heaviest <= {row["url"] for row in outputs[-1].to_pylist()}


def test_counts_are_exact_while_there_is_room() -> None:
    batches = stream(2, 1.3, keys=40)
    true = Counter(pa.concat_tables(batches)["url"].to_pylist())
    last = run(HeaviestKeys(5, capacity=40, buckets=3), batches, key="url").outputs[-1].to_pylist()
    assert sorted((row["count"] for row in last), reverse=True) == [count for _, count in true.most_common(5)]
    assert all(row["count"] == true[row["url"]] and row["error"] == 0 for row in last)


def test_a_key_of_several_columns_of_any_type() -> None:
    rows = pa.table(
        {
            "country": pa.array(["no", "it", "no", None], pa.string()).dictionary_encode(),
            "spot": pa.array([{"x": 1.5}, {"x": None}, {"x": 1.5}, None], pa.struct({"x": pa.float64()})),
            "other": [1, 2, 3, 4],
        }
    )
    last = run(HeaviestKeys(2), [rows, rows.slice(3)], key=["country", "spot"]).outputs[-1].to_pylist()
    assert {(row["country"], repr(row["spot"]), row["count"]) for row in last} == {
        ("no", "{'x': 1.5}", 2),
        (None, "None", 2),
    }


def test_a_batch_without_rows_shows_the_list_again() -> None:
    rows = table(["a", "b", "a"])
    outputs = run(HeaviestKeys(2), [rows.slice(0, 0), rows, rows.slice(0, 0)], key="url").outputs
    assert outputs[0].num_rows == 0
    assert [row["count"] for row in outputs[1].to_pylist()] == [2, 1]
    assert outputs[2].equals(outputs[1])


def overlap(expected: pa.Table, got: pa.Table) -> bool:
    """Two lists agree if each key in both may have the same true count."""
    ours, theirs = ({row.get("url"): row for row in side.to_pylist()} for side in (expected, got))
    return all(
        ours[url]["count"] >= theirs[url]["count"] - theirs[url]["error"]
        and theirs[url]["count"] >= ours[url]["count"] - ours[url]["error"]
        for url in ours.keys() & theirs.keys()
        if "count" in ours[url]
    )


def test_has_the_properties_of_an_operator() -> None:
    batches = stream(3, 1.3, batches=2, rows=50)
    check_operator(HeaviestKeys(5, buckets=3), batches, key="url", same=overlap, seeds=1)
    # with room for all it is exact, so that everything must be equal
    check_operator(HeaviestKeys(60, buckets=3), stream(4, 1.3, batches=2, rows=20, keys=30), key="url", seeds=1)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: HeaviestKeys(0), ArgumentError, r"at least 1, got 0 \(in k\)"),
        (lambda: HeaviestKeys(5, buckets=0), ArgumentError, r"at least 1, got 0 \(in buckets\)"),
        (lambda: HeaviestKeys(5, capacity=4), ArgumentError, "room for all 5"),
        (lambda: HeaviestKeys(5).bind(pa.schema({"rank": pa.int64()}), ("rank",)), ArgumentError, "name of a key"),
        (lambda: HeaviestKeys(5).bind(pa.schema({"x": pa.uint8()}), ("x",)), KeyTypeError, "cannot be hashed"),
    ],
)
def test_what_cannot_work_is_refused(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_is_a_plain_value_that_knows_its_key() -> None:
    operator = HeaviestKeys(5)
    assert repr(operator) == "HeaviestKeys(k=5, capacity=10, buckets=64)"
    assert pickle.loads(pickle.dumps(operator)) == operator != HeaviestKeys(6)
    schema = pa.schema({"x": pa.int64(), "y": pa.int64()})
    assert operator.bind(schema, ("x",)) != operator.bind(schema, ("y",))
