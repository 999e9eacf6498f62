from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unskew.errors import StateError
from unskew_lab.bench.count_and_sum import counting
from unskew_lab.bench.drop_in import CHANGE_EVERY, check, native_over_ours, write_stream
from unskew_lab.bench.lane import Lane
from unskew_lab.bench.streams import write_file


def test_other_keys_become_hot_at_every_change_and_the_skew_stays(tmp_path):
    write_stream(tmp_path, 2 * CHANGE_EVERY, 5_000, channels=10)
    files = sorted((tmp_path / "files").iterdir())
    hottest = [Counter(pq.read_table(file)["key"].to_pylist()).most_common(1)[0] for file in files]
    assert [len({key for key, _ in part}) for part in (hottest[:CHANGE_EVERY], hottest[CHANGE_EVERY:])] == [1, 1]
    assert hottest[0][0] != hottest[-1][0]
    assert all(0.07 < rows / 5_000 < 0.14 for _, rows in hottest)


def test_the_last_row_of_each_key_must_be_right(tmp_path):
    write_file(tmp_path, 0, pa.array(["a", "b", "a"]), [1.0, 2.0, 3.0])
    write_file(tmp_path, 1, pa.array(["a"]), [5.0])

    def output(*rows):
        return pa.table(dict(zip(("key", "n", "total"), map(list, zip(*rows, strict=True)), strict=True)))

    first, last = output(("a", 2, 4.0), ("b", 1, 2.0)), output(("a", 3, 9.0))
    check("sound", [first, last], tmp_path)
    for wrong in ([last, first], [first], [first, output(("a", 3, 8.0))], [first, last, output(("c", 1, 1.0))]):
        with pytest.raises(StateError, match="broken"):
            check("broken", wrong, tmp_path)


def test_native_is_compared_with_ours_without_the_first_batches():
    lanes = {name: Lane(None) for name in ("native", "unskew")}
    lanes["native"].seconds = {0: 99.0, 1: 4.0, 2: 6.0}
    lanes["unskew"].seconds = {0: 99.0, 1: 2.0, 2: 3.0}
    ratio, *batches = native_over_ours("count", lanes, 1, target=1.5)
    assert (ratio.name, ratio.value, ratio.target, ratio.met) == ("count: native over unskew", 2.0, 1.5, True)
    assert [row.contender for row in batches] == ["native", "unskew"] * 2


def test_the_function_goes_on_from_its_state_and_takes_its_time(monkeypatch):
    spent = []
    monkeypatch.setattr("unskew_lab.bench.count_and_sum.spend", lambda seconds, kind: spent.append((seconds, kind)))

    class State:
        exists, get = True, (2, 10.0)

        def update(self, value):
            self.get = value

    state = State()
    frames = [pa.table({"value": values}).to_pandas() for values in ([1.0, 2.0], [3.0])]
    [row] = counting(0.5, "cpu")(("a",), iter(frames), state)
    assert row.to_dict("records") == [{"key": "a", "n": 5, "total": 16.0}]
    assert state.get == (5, 16.0)
    assert spent == [(1.0, "cpu"), (0.5, "cpu")]
