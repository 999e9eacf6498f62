from __future__ import annotations

import numpy as np

from unskew_lab.bench.zipf import zipf_hashes, zipf_ranks, zipf_shares


def test_shares_fall_with_the_rank_and_add_up():
    np.testing.assert_allclose(25 * zipf_shares(4, 1.0), [12, 6, 4, 3])


def test_ranks_are_drawn_by_their_shares():
    counts = np.bincount(zipf_ranks(np.random.default_rng(0), 100_000, 4, 1.0), minlength=4)
    np.testing.assert_allclose(counts / 100_000, zipf_shares(4, 1.0), atol=0.01)


def test_the_same_seed_gives_the_same_keys():
    first, second = (zipf_hashes(1_000, keys=100, seed=seed) for seed in (0, 0))
    assert first.tolist() == second.tolist() != zipf_hashes(1_000, keys=100, seed=1).tolist()
    assert len(set(first.tolist())) <= 100
