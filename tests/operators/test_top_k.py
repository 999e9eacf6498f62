"""The k greatest totals, against a sort of all totals."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError, ColumnError
from unskew.operators import Aggregate, TopK
from unskew.testing import disturbed, run

WORDS = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=15), min_size=1, max_size=5)


@given(batches=WORDS, k=st.integers(1, 8))
@settings(max_examples=40)
def test_equals_a_sort_of_all_totals(batches: list[list[str]], k: int) -> None:
    so_far, top = Counter[str](), TopK(k, by="n", key=["word"])
    for words in batches:
        so_far.update(words)
        changed = sorted(set(words))
        rows = pa.table(
            {"word": pa.array(changed, pa.string()), "n": pa.array([so_far[w] for w in changed], pa.int64())}
        )
        top = top.after(rows)
        assert top.rows is not None
        expected = sorted(so_far.items(), key=lambda item: (-item[1], item[0]))[:k]
        assert list(zip(*top.rows.to_pydict().values(), strict=True)) == expected
        assert top.after(rows).rows == top.rows, "a batch that comes again changes nothing"


def test_word_count_in_two_phases_while_words_move() -> None:
    random = np.random.default_rng(0)
    batches = [pa.table({"word": np.char.add("w", (random.zipf(1.3, 500) % 90).astype(str))}) for _ in range(5)]
    outputs = run(Aggregate(n="count"), disturbed(batches, key="word", channels=3), key="word", channels=3).outputs
    top = TopK(10, by="n", key=["word"])
    for rows in outputs:
        top = top.after(rows)
    assert top.rows is not None
    true = Counter(pa.concat_tables(batches)["word"].to_pylist())
    expected = sorted(true.items(), key=lambda item: (-item[1], item[0]))[:10]
    assert [(row["word"], row["n"]) for row in top.rows.to_pylist()] == expected


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ArgumentError, match="at least one place"):
        TopK(0, by="n", key=["word"])
    with pytest.raises(ColumnError, match="no column"):
        TopK(1, by="n", key=["word"]).after(pa.table({"word": ["a"], "m": [1]}))
