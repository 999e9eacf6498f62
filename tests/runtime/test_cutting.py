"""Pieces of rows beside plain slices of the same rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.runtime import cutting
from unskew.runtime.cutting import cut, cut_in_order, sizes_in_order, taken

TEXTS = st.lists(st.one_of(st.none(), st.text(alphabet="ab", max_size=30)), max_size=60)


@given(TEXTS, st.lists(st.integers(0, 60), max_size=4), st.integers(1, 20), st.integers(1, 400))
def test_pieces_are_the_rows_within_both_limits(
    texts: list[str | None], ends: list[int], rows_at_once: int, bytes_at_once: int
) -> None:
    rows = pa.record_batch({"text": pa.array(texts, pa.string()), "n": pa.array(range(len(texts)), pa.int64())})
    ends = sorted(min(end, len(texts)) for end in [0, *ends, len(texts)])
    batches = [rows.slice(a, b - a) for a, b in pairwise(ends)]
    pieces = list(cut(batches, rows_at_once, bytes_at_once))
    assert pieces == list(cut([rows], rows_at_once, bytes_at_once)), "the batches do not matter"
    assert [row for piece in pieces for row in piece.to_pylist()] == rows.to_pylist()
    for piece in pieces:
        content = sum(12 + len(text or "") for text in piece["text"].to_pylist())
        assert 0 < piece.num_rows <= rows_at_once
        assert content <= bytes_at_once or piece.num_rows == 1


@given(TEXTS.filter(bool), st.randoms(use_true_random=False))
def test_rows_taken_chunk_by_chunk_are_those_taken_at_once(texts: list[str | None], random) -> None:
    chunks = [texts[at : at + 7] for at in range(0, len(texts), 7)]
    lists = pa.array([[text] for text in texts], pa.list_(pa.string()))
    rows = pa.table({"text": pa.chunked_array(chunks, pa.string()), "list": lists})
    order = np.array([random.randrange(len(texts)) for _ in range(random.randrange(len(texts) + 1))], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "TAKEN_IN_ONE_PIECE", -1)
        assert taken(rows, order).to_pylist() == [{"text": texts[i], "list": [texts[i]]} for i in order]
    for piece, start in zip(cut_in_order(rows, order, 1, 1), order, strict=True):
        assert piece["text"].to_pylist() == [texts[start]]
    assert (sizes_in_order(rows, order) == [12 + 2 * len(texts[i] or "") for i in order]).all()


@pytest.mark.slow
def test_more_than_an_array_holds() -> None:
    """Chunks that share one buffer, of which three do not fit into an array."""
    text = pa.array(["x" * (1 << 20)] * 1000)
    rows = pa.table({"text": pa.chunked_array([text] * 3), "n": np.arange(3000)})
    order = np.array([2999, 0, 1500, 7])
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        rows.take(pa.array(order))
    assert taken(rows, order)["n"].to_pylist() == order.tolist()
    assert max(piece.nbytes for piece in cut(rows.to_batches(), 1 << 18)) <= cutting.BYTES_AT_ONCE
