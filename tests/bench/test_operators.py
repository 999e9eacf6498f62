from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from unskew.testing import run
from unskew_lab.bench import benchmarks, operators
from unskew_lab.bench.operator_pairs import CASES, COSTLY, HOT_KEYS, NATIVE, Case, contenders, hottest_keys
from unskew_lab.bench.operators import OURS, SUBJECTS, batch_rows, inside
from unskew_lab.bench.per_key import HEAVY_HITTERS, HISTOGRAM, HISTORY


def test_keys_are_as_skewed_as_they_are_called() -> None:
    uniform, skewed = (batch_rows(0, 20_000, exponent) for exponent in operators.SHAPES.values())
    counts = [rows["key"].value_counts().field("counts").to_numpy() for rows in (uniform, skewed)]
    assert counts[0].max() < 25, "five rows a key"
    assert 0.15 < counts[1].max() / 20_000 < 0.25, "1 / zeta(1.2) up to 4,000 keys is 0.21"
    assert len(counts[0]) > 3900


def test_every_subject_has_its_own_name() -> None:
    assert len({subject.name for subject in SUBJECTS}) == len(SUBJECTS)


QUICK = {"sliding windows (2): count and sum"}


@pytest.mark.parametrize(
    "subject",
    [pytest.param(s, id=s.name, marks=() if s.name in QUICK else pytest.mark.slow) for s in SUBJECTS],
)
def test_every_subject_runs(subject: operators.Subject) -> None:
    rows = inside(subject, 500, repeats=1)
    assert len(rows) == 2 * len(operators.SHAPES)
    assert {row.contender for row in rows} == {OURS}
    assert all(row.value > 0 and row.unit == "M rows/s" for row in rows)
    assert [row.target for row in rows] == [subject.target, None] * len(operators.SHAPES)


def test_quickly_the_inside_is_measured_and_one_join(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(operators, "inside", lambda subject, rows, repeats: asked.append(rows) or [])
    for name in ("beside_spark", "beside_python"):
        monkeypatch.setattr(operators, name, lambda subjects, rows, name=name: [(name, len(subjects), rows)])
    monkeypatch.setattr(operators, "pairs", lambda cases: [("pairs", *(case.rows for case in cases))])
    monkeypatch.setattr(operators, "query_5", lambda scale: [("query 5", scale)])
    assert benchmarks["operators"]().run(quick=True) == [("pairs", 1_500, 1_500)]
    assert benchmarks["operators"]().run(quick=False) == [
        ("beside_spark", len(SUBJECTS), 250_000),
        ("beside_python", len(SUBJECTS), 200_000),
        ("pairs", 50_000, 5_000, 1_500, 1_500),
        ("query 5", 1.0),
    ]
    assert asked == [100_000] * len(SUBJECTS) + [500_000] * len(SUBJECTS)


def test_every_operator_has_an_opponent_but_aggregates_of_one_kind() -> None:
    """Spark's own way where it has one, a function per key where it has none; pairs have a file of their own."""
    alone = [subject.name for subject in SUBJECTS if subject.native is None and subject.per_key is None]
    assert all(name.startswith(("aggregate: ", "self-join: ")) for name in alone)
    assert all(subject.native is None or subject.per_key is None for subject in SUBJECTS)


class State:
    """What Spark hands to a function per key."""

    def __init__(self) -> None:
        self.get, self.exists = (), False

    def update(self, value: tuple[Any, ...]) -> None:
        self.get, self.exists = value, True


def called(function: Any, batches: list[list[float]]) -> list[dict[str, Any]]:
    """Return the rows of each batch of one key."""
    state, found = State(), list[dict[str, Any]]()
    for values in batches:
        frame = pd.DataFrame({"key": "k", "value": values, "ts": pd.Timestamp(0)})
        found += [row for part in function(("k",), iter([frame]), state) for row in part.to_dict("records")]
    return found


@pytest.mark.slow
def test_opponents_compute_what_operators_compute() -> None:
    random = np.random.default_rng(0)
    batches = [random.integers(0, 70, 40).astype(float).tolist() for _ in range(3)]
    tables = [
        pa.table({"key": ["k"] * 40, "value": values, "ts": pa.nulls(40, pa.timestamp("us"))}) for values in batches
    ]
    by_name = {subject.per_key: subject.operator for subject in SUBJECTS if subject.per_key is not None}
    ours = {per_key: run(by_name[per_key], tables, key="key").outputs for per_key in by_name}
    means = [row["mean"] for row in called(HISTORY.function, batches)]
    assert sorted(means) == pytest.approx(sorted(pa.concat_tables(ours[HISTORY])["mean"].to_pylist()))
    for theirs, output in zip(called(HISTOGRAM.function, batches), ours[HISTOGRAM], strict=True):
        assert sum(theirs["counts"]) == sum(output["counts"][0].as_py())
        assert len(theirs["centres"]) == len(output["centres"][0])
    for theirs, seen in zip(called(HEAVY_HITTERS.function, batches), (40, 80, 120), strict=True):
        true = Counter([value for batch in batches for value in batch][:seen])
        for item, count, error in zip(theirs["items"], theirs["counts"], theirs["errors"], strict=True):
            assert count - error <= true[item] <= count


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_compares_ours_with_sparks_own(case: Case) -> None:
    assert NATIVE in case.contenders
    assert set(case.targets) <= set(case.contenders) < set(contenders(case))


def test_costly_pairs_are_most_of_what_costs() -> None:
    """A batch finds several times as many pairs as it has rows, and the hottest key has more than half of them."""
    assert COSTLY.pair_seconds > 0
    rows = batch_rows(0, COSTLY.rows, 1.2)
    frame = pd.DataFrame({"key": rows["key"].to_pylist(), "at": rows["ts"].cast(pa.int64()).to_numpy()})
    found = Counter[str]()
    for key, times in frame.groupby("key")["at"]:
        at = np.sort(times.to_numpy())
        found[key] = int((np.searchsorted(at, at + 4_000_000, side="right") - np.arange(1, len(at) + 1)).sum())
    assert found.total() > 5 * COSTLY.rows
    assert found[hottest_keys(COSTLY.rows)[0]] > found.total() / 2


def test_hot_keys_are_the_most_frequent_ones() -> None:
    rows = batch_rows(0, 20_000, 1.2)
    counts = rows["key"].value_counts().to_pylist()
    most = sorted(counts, key=lambda each: -each["counts"])[:HOT_KEYS]
    assert [each["values"] for each in most] == hottest_keys(20_000)
