"""Which chunks a commit merges."""

from __future__ import annotations

from unskew.state.compaction import tail_to_merge
from unskew.state.manifest import Chunk


def test_chunks_of_a_size_are_merged_when_there_are_several() -> None:
    small = [Chunk(i, "", 10, 0, 10) for i in range(3)]
    big = [Chunk(9, "", 600, 0, 600)]
    assert tail_to_merge(big + small, 10, 4, 1000) == small
    assert tail_to_merge(big + small[1:], 10, 4, 1000) == []
