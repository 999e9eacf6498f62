"""Parts of chunks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from unskew.state import parts
from unskew.state.chunks import Columns, from_store
from unskew.state.parts import slot_order, stored

COLUMNS = Columns.of(pa.schema({"id": pa.int64()}), pa.schema({"n": pa.int64()}))


def rows_of(hashes: list[int]) -> pa.RecordBatch:
    numbers = np.arange(len(hashes))
    return COLUMNS.make_rows(np.array(hashes, np.int64), pa.table({"id": numbers}), pa.table({"n": numbers}))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 48)  # two rows
    monkeypatch.setattr(parts, "GAP_BYTES", 0)


def test_rows_lie_by_slot_and_the_removed_ones_last() -> None:
    order = slot_order(rows_of([5, -8, 9, 1, 8, 7, 0, 3]), removed=3, slots=8)
    assert order is not None
    assert order.tolist() == [1, 4, 2, 3, 0, 6, 7, 5]  # slots 0 0 1 1 5, then 0 3 7
    assert slot_order(rows_of([5, 1]), removed=0, slots=8) is None
    many = slot_order(rows_of([70_000, 3, 69_999, 2]), removed=0, slots=1 << 17)
    assert many is not None and many.tolist() == [3, 1, 2, 0]


def test_a_chunk_is_cut_where_the_removed_rows_begin() -> None:
    rows = rows_of([0, 0, 1, 1, 5, 0, 3, 7])
    data, cut = stored(rows, removed=3, slots=8)
    assert cut is not None
    assert cut.places[:3].tolist() == [[0, 2, 4, 5, 7], [0, 1, 5, 0, 7], [0, 1, 5, 3, 7]]
    assert from_store(data, 1, COLUMNS).equals(rows)
    for slot, expected in [(0, [[0], [5]]), (1, [[2], [5]]), (4, []), (5, [[4]]), (7, [[7]])]:
        assert [[part.row for part in run] for run in cut.runs(np.arange(8) == slot)] == expected
    for part, until in zip(cut.runs(np.ones(8, bool))[0], (2, 4, 5, 7, 8), strict=True):
        alone = from_store(data[part.start : part.start + part.length], 1, COLUMNS)
        assert alone.equals(rows.slice(part.row, until - part.row))


def test_small_gaps_are_read_through(monkeypatch: pytest.MonkeyPatch) -> None:
    _, cut = stored(rows_of([0, 0, 1, 1, 2, 2, 3, 3]), removed=0, slots=4)
    assert cut is not None
    ends = np.isin(np.arange(4), [0, 2, 3])
    assert [len(run) for run in cut.runs(ends)] == [1, 2]
    monkeypatch.setattr(parts, "GAP_BYTES", int(cut.places[3, 1]))
    assert [len(run) for run in cut.runs(ends)] == [4]


def test_there_is_a_limit_to_the_number_of_parts() -> None:
    _, cut = stored(rows_of(list(range(1000))), removed=0, slots=1000)
    assert cut is not None and cut.places.shape == (5, parts.MOST_PARTS)


def test_a_slot_may_lie_in_two_parts() -> None:
    places = np.array([[0, 50, 90], [0, 3, 6], [3, 5, 7], [900, 800, 700], [77, 78, 79]], np.uint32)
    cut, slots = parts.Parts(8, places), np.arange(8)
    assert [[part.row for part in run] for run in cut.runs(slots == 3)] == [[0, 50]]
    assert cut.runs(slots == 7) == [[parts.Part(row=90, start=1700, length=700, checksum=79)]]
