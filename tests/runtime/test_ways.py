"""Which way a batch goes follows from what rows and channels cost."""

from types import SimpleNamespace

import pytest

from unskew.runtime.ways import most_rows


def rows_of(channels: int, seconds_per_row: float, cores: int = 2, presummed: bool = False) -> int:
    table, costs = SimpleNamespace(channels=channels), SimpleNamespace(seconds_per_row=seconds_per_row)
    return most_rows(SimpleNamespace(table=table, costs=costs), cores, presummed)


def test_costly_rows_are_split_up_sooner():
    by_hand = 0.15 / (9 / 10) / (500e-6 + 2e-6)  # nine tenths of the work could be done by others
    assert rows_of(channels=10, seconds_per_row=500e-6, cores=10) == int(by_hand) == 332
    assert rows_of(channels=10, seconds_per_row=0.0, cores=10) > 50_000


@pytest.mark.parametrize(("rows", "whole"), [(900, True), (3000, False)])
def test_many_channels_are_split_up_unless_the_batch_is_small(rows, whole):
    """Opening the state of 64 channels takes longer than a shuffle; a thousand rows run in one task all the same."""
    assert (rows <= rows_of(channels=64, seconds_per_row=5e-6, presummed=True)) is whole


def test_one_core_never_splits():
    assert rows_of(channels=64, seconds_per_row=1.0, cores=1) == 1 << 20
    assert rows_of(channels=1, seconds_per_row=1.0, cores=8) == 1 << 20
