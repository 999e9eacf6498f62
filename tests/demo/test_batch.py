from __future__ import annotations

import pytest

from unskew.errors import ArgumentError
from unskew_lab.demo import Batch, Settings


def test_imbalance_is_the_fullest_channel_over_the_mean():
    batch = Batch(1, 5.0, (100, 300), (1.0, 3.0))
    assert batch.imbalance == pytest.approx(1.5)
    assert batch.fullest == 1
    assert batch.rows == 400


@pytest.mark.parametrize("name", ["batches", "rows", "channels", "keys", "batches_per_shift"])
def test_settings_below_one_are_refused(name):
    with pytest.raises(ArgumentError, match=f"{name} must be above 0, got 0"):
        Settings(**{name: 0})
