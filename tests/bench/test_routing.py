from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from unskew_lab.bench import benchmarks, routing
from unskew_lab.bench.harness import Timing
from unskew_lab.bench.routing import OURS, hash_integers, hash_strings, look_up


@pytest.mark.parametrize("explicit_share", [0.0, 0.5])
def test_all_contenders_find_the_same_channels(explicit_share: float) -> None:
    ours, *others = (call() for call in look_up(np.random.default_rng(1), 20_000, explicit_share).values())
    for theirs in others:
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("contenders", [hash_integers, hash_strings])
def test_all_contenders_hash_every_row_and_tell_equal_rows_alike(contenders: object) -> None:
    for call in contenders(np.random.default_rng(1), 5_000).values():
        assert len(set(call().tolist())) == 5_000


def test_strings_have_8_to_16_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []
    monkeypatch.setattr(pd.util, "hash_array", lambda values, **_: seen.append(values))
    hash_strings(np.random.default_rng(1), 1_000)["pandas hash_array"]()
    assert {len(word) for word in seen[0]} == set(range(8, 17))


def test_rows_hold_speeds_targets_and_the_ratio_to_the_fastest_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {OURS: 1.0, "numpy searchsorted": 4.0, "pyarrow index_in": 2.0, "pandas hash_array": 3.0}
    monkeypatch.setattr(
        routing, "interleave", lambda contenders, repeats: {who: Timing.of([seconds[who]]) for who in contenders}
    )
    rows = benchmarks["routing"]().run(quick=True)
    ours = [row for row in rows if row.contender == OURS]
    assert [(row.value, row.ratio, row.target) for row in ours] == [(1, 3, 100), (0.2, 3, 20), (1, 2, 50), (1, 2, 50)]
    assert all(row.ratio is None and row.target is None for row in rows if row.contender != OURS)
    assert {row.unit for row in rows} == {"M rows/s"}
