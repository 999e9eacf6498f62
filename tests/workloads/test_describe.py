from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from unskew.errors import ArgumentError
from unskew.hashing import xxhash64
from unskew.workloads import describe, workload


@pytest.mark.parametrize(("name", "options"), [("zipf", {"exponent": 1.1, "keys": 5000}), ("stock", {}), ("ln1", {})])
def test_equals_counting_the_rows(name: str, options: dict[str, float]) -> None:
    chosen = workload(name, **options)
    skew = describe(chosen, n=20_000, channels=[8, 5], interval=2)
    keys = chosen.rows(2, 20_000)["key"].to_pylist()
    counted = Counter(keys)
    counts = sorted(counted.values(), reverse=True)
    assert (skew.workload, skew.rows, skew.interval, skew.distinct_keys) == (name, 20_000, 2, len(counted))
    assert skew.top_share == counts[0] / 20_000
    assert sum(counts[: skew.keys_for_half]) >= 10_000 > sum(counts[: skew.keys_for_half - 1])
    assert [hot.share * 20_000 for hot in skew.top_keys] == pytest.approx(counts[:10])
    assert [counted[hot.key] for hot in skew.top_keys] == counts[:10]
    for load, channels in zip(skew.loads, [8, 5], strict=True):
        homes = Counter((xxhash64([pa.array(keys)]) % channels).tolist())
        assert load.channels == channels
        assert list(load.rows) == [homes[channel] for channel in range(channels)]
        assert load.times_shorter == pytest.approx(max(homes.values()) / (20_000 / channels))
        assert load.times_shorter_whole_keys == pytest.approx(max(homes.values()) / max(20_000 / channels, counts[0]))


def test_null_keys_are_keys() -> None:
    skew = describe(workload("flights", key="tailnum"), n=336_776, channels=[4])
    assert skew.distinct_keys == 4044
    assert skew.top_keys[0].key is None
    assert sum(skew.loads[0].rows) == 336_776


def test_uniform_keys_leave_nothing_to_gain() -> None:
    skew = describe(workload("zipf", exponent=0, keys=100_000), n=400_000)
    assert [load.channels for load in skew.loads] == [4, 8, 16, 32, 64]
    assert max(load.times_shorter for load in skew.loads) < 1.1
    assert skew.keys_for_half < 50_000


def test_one_channel_suffers_nothing() -> None:
    assert describe(workload("zipf"), n=1000, channels=[1]).loads[0].times_shorter == 1


def test_few_distinct_keys_are_all_named() -> None:
    skew = describe(workload("flights", key="origin"), n=5000)
    assert {hot.key for hot in skew.top_keys} == {"EWR", "JFK", "LGA"}
    assert np.isclose(sum(hot.share for hot in skew.top_keys), 1)


@pytest.mark.parametrize(("n", "channels"), [(0, [8]), (10, []), (10, [0])])
def test_wrong_questions_are_refused(n: int, channels: list[int]) -> None:
    with pytest.raises(ArgumentError):
        describe(workload("zipf"), n=n, channels=channels)
