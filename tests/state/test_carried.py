"""Files that tasks cannot reach."""

from __future__ import annotations

import pytest

from unskew.state.carried import CarriedFiles, NotHereError


def test_a_task_reads_what_came_and_what_it_writes_leaves() -> None:
    files = CarriedFiles("hdfs://ck/unskew")
    files.take_in("state/7/a-0.arrow", 64, b"some state")
    assert files._place.read_range("state/7/a-0.arrow", 69, 5).to_pybytes() == b"state"
    with pytest.raises(NotHereError):
        files._place.read_range("state/7/a-0.arrow", 63, 5)
    files.write("state/8/b-0.arrow", b"more")
    assert list(files.leaving()) == [("state/8/b-0.arrow", b"more")]
