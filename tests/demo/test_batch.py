from __future__ import annotations

import pytest

from unskew.demo import Batch, HotKey, Settings, Summary
from unskew.errors import ArgumentError


def make(number, seconds, channel_rows, channel_seconds, hottest_seconds):
    hot = HotKey("user-1", max(channel_rows), channel_rows.index(max(channel_rows)), hottest_seconds)
    return Batch(number, seconds, channel_rows, channel_seconds, (hot,))


def test_balanced_is_the_mean_of_the_channels():
    batch = make(1, 5.0, (300, 100), (3.0, 1.0), 0.5)
    assert batch.balanced_seconds == pytest.approx(5.0 - 3.0 + 2.0)
    assert batch.imbalance == pytest.approx(0.5)
    assert batch.fullest == 0


def test_a_key_heavier_than_the_mean_bounds_what_balance_gains():
    batch = make(1, 5.0, (300, 100), (3.0, 1.0), 2.5)
    assert batch.balanced_seconds == pytest.approx(5.0 - 3.0 + 2.5)


def test_the_first_batch_is_left_out_of_the_summary():
    slow = make(0, 30.0, (100, 100), (1.0, 1.0), 0.1)
    one, two = make(1, 4.0, (300, 100), (3.0, 1.0), 0.5), make(2, 2.0, (200, 200), (1.0, 1.0), 0.5)
    summary = Summary.of([slow, one, two])
    assert (summary.batches, summary.rows, summary.seconds) == (2, 800, 6.0)
    assert summary.balanced_seconds == pytest.approx(3.0 + 2.0)
    assert summary.share_saved == pytest.approx(1 / 6)
    assert (summary.mean_imbalance, summary.worst_imbalance) == (pytest.approx(0.25), pytest.approx(0.5))
    assert Summary.of([slow]).batches == 1


@pytest.mark.parametrize("name", ["batches", "rows", "channels", "keys", "batches_per_shift"])
def test_settings_below_one_are_refused(name):
    with pytest.raises(ArgumentError, match=f"{name} must be above 0, got 0"):
        Settings(**{name: 0})
