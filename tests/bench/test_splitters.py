from __future__ import annotations

import numpy as np

from unskew.splitters import candidates, splitter
from unskew_lab.bench import benchmarks
from unskew_lab.bench.splitters import plain_two_choices
from unskew_lab.bench.zipf import zipf_hashes


def test_the_plain_contender_chooses_as_ours_does():
    stream = zipf_hashes(5_000, 1.2)
    ours = splitter("pkg").route(stream, np.zeros(100)).channels
    assert plain_two_choices(candidates(stream, 100).tolist(), 100) == ours.tolist()


def test_the_stream_is_skewed_as_said():
    counts = np.unique(zipf_hashes(200_000, 1.2), return_counts=True)[1]
    assert abs(counts.max() / 200_000 - 0.19) < 0.01


def test_the_benchmark_registers_itself():
    assert "splitters" in benchmarks
