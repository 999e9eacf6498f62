from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy.stats import chisquare

from unskew.errors import ArgumentError, MissingPackageError
from unskew.hashing import xxhash64
from unskew.workloads import tpch as module
from unskew.workloads.base import START
from unskew.workloads.tpch import Tables, Tpch

PRIMARY = {"o_custkey": "c_custkey", "l_orderkey": "o_orderkey", "l_suppkey": "s_suppkey"}
CHANGES = 4


@pytest.fixture(scope="module")
def tables() -> Tables:
    return Tpch(scale=0.01).tables()


def values(tables: Tables, column: str) -> np.ndarray:
    found = next(table[column] for table in tables if column in table.column_names)
    return (found.cast(pa.int64()) if column.endswith("_time") else found).to_numpy()


def interval_of(tables: Tables, column: str) -> np.ndarray:
    """Return the quarter of an hour that each row with that column is in."""
    return (values(tables, f"{column[0]}_time") - START) // (900 * 1_000_000)


def test_these_are_the_rows_of_tpch(tables: Tables) -> None:
    """Numbers of rows and the nations of Asia as the benchmark's sections 4.2.3 and 4.2.5 have them."""
    counts = {name: table.num_rows for name, table in tables._asdict().items()}
    assert counts.pop("lineitem") == pytest.approx(60_000, rel=0.01)
    assert counts == {"orders": 15_000, "customer": 1_500, "supplier": 100, "nation": 25, "region": 5}
    assert tables.region["r_name"].to_pylist() == ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
    asia = tables.nation.filter(pc.equal(tables.nation["n_regionkey"], 2))["n_name"].to_pylist()
    assert sorted(asia) == ["CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"]
    assert set(tables.lineitem["l_discount"].to_pylist()) == {Decimal(percent) / 100 for percent in range(11)}
    assert np.unique(values(tables, "o_orderkey")).size == 15_000


@pytest.mark.parametrize("column", PRIMARY)
def test_foreign_keys_are_drawn_from_the_keys_of_the_other_table(tables: Tables, column: str) -> None:
    law = Tpch(scale=0.01).law(column)
    assert np.array_equal(np.sort(law.names(np.arange(law.domain))), np.sort(values(tables, PRIMARY[column])))
    assert np.isin(values(tables, column), values(tables, PRIMARY[column])).all()


@pytest.mark.parametrize("column", PRIMARY)
def test_keys_follow_zipf_with_0_8_in_every_interval(tables: Tables, column: str) -> None:
    keys, intervals = values(tables, column), interval_of(tables, column)
    weights = np.arange(1, np.unique(values(tables, PRIMARY[column])).size + 1) ** -0.8
    law = Tpch(scale=0.01).law(column)
    hottest = []
    for number in range(CHANGES):
        drawn = keys[intervals == number]
        by_rank = np.asarray(law.names(np.argsort(-law.probabilities(number), kind="stable")))
        ranks = np.argsort(by_rank)[np.searchsorted(np.sort(by_rank), drawn)]
        edges = [0, 1, 2, 4, 8, 16, 32, 64, weights.size]
        seen = [np.sum((ranks >= low) & (ranks < high)) for low, high in pairwise(edges)]
        expected = [weights[low:high].sum() / weights.sum() * drawn.size for low, high in pairwise(edges)]
        assert chisquare(seen, expected).pvalue > 0.001
        hottest.append(int(by_rank[0]))
    assert len(set(hottest)) > 1


@pytest.mark.parametrize("column", PRIMARY)
def test_some_channels_load_changes_by_its_mean_every_quarter_of_an_hour(tables: Tables, column: str) -> None:
    """Fang's f = 1, seen in the rows themselves under Spark's hash of the keys as they stand there."""
    keys, intervals = values(tables, column), interval_of(tables, column)
    channel = xxhash64([pa.array(keys)]) % 4
    loads = [
        np.bincount(channel[intervals == number], minlength=4) * 4 / np.sum(intervals == number)
        for number in range(CHANGES)
    ]
    changes = [np.abs(after - before).max() for before, after in pairwise(loads)]
    assert min(changes) > 0.9, "1, less what chance takes away"
    calm = Tpch(scale=0.01, rate=0.0).tables()
    channel = xxhash64([pa.array(values(calm, column))]) % 4
    loads = [
        np.bincount(channel[intervals == number], minlength=4) * 4 / np.sum(intervals == number)
        for number in range(CHANGES)
    ]
    assert max(np.abs(after - before).max() for before, after in pairwise(loads)) < 0.1


def test_foreign_keys_of_a_row_are_independent(tables: Tables) -> None:
    orders, suppliers = values(tables, "l_orderkey"), values(tables, "l_suppkey")
    first = interval_of(tables, "l_orderkey") == 0
    hot_order, hot_supplier = orders[first] == 1, suppliers[first] == 1
    expected = hot_order.mean() * hot_supplier.mean() * first.sum()
    assert expected > 30
    assert abs(np.sum(hot_order & hot_supplier) - expected) < 4 * np.sqrt(expected)


def test_streams_are_in_order_of_time_and_slices_make_them_up(tables: Tables) -> None:
    tpch = Tpch(scale=0.01)
    for rows, time in ((tables.orders, "o_time"), (tables.lineitem, "l_time")):
        at = values(tables, time)
        assert (np.diff(at) >= 0).all()
        assert START <= at[0] < at[-1] < START + 3_600 * 1_000_000
        slices = tpch.slices(rows, 7)
        assert pa.concat_tables(slices) == rows
        for number, part in enumerate(slices):
            inside = part[time].cast(pa.int64()).to_numpy() - START
            assert (inside * 7 // (3_600 * 1_000_000) == number).all()


def test_the_seed_redraws_foreign_keys_and_nothing_else(tables: Tables) -> None:
    again, other = Tpch(scale=0.01).tables(), Tpch(scale=0.01, seed=1).tables()
    assert again == tables
    for table, changed in zip(tables, other, strict=True):
        different = {name for name in table.column_names if table[name] != changed[name]}
        assert different == set(table.column_names) & set(PRIMARY)


def test_what_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match="scale must be above 0"):
        Tpch(scale=0)
    with pytest.raises(ArgumentError, match="rate must be 0 or more"):
        Tpch(rate=-1.0)
    with pytest.raises(ArgumentError, match="one slice or more"):
        Tpch().slices(pa.table({}), 0)
    with pytest.raises(ArgumentError, match="one of o_custkey"):
        Tpch().law("p_partkey")
    module._dbgen.cache_clear()
    monkeypatch.setattr(module.shutil, "which", lambda *_, **__: None)
    with pytest.raises(MissingPackageError, match=r"pip install 'unskew\[tpch\]'"):
        Tpch().tables()
