import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.routing.slots import add_channel, balanced_slots, resize_slots


def shares(owners: np.ndarray, channels: int) -> np.ndarray:
    return np.bincount(owners, minlength=channels)


def test_4096_slots_grown_from_1_to_64_channels_and_back_move_only_what_they_must() -> None:
    owners = np.zeros(4096, np.int32)
    path = [owners]
    for n in range(2, 65):
        grown = resize_slots(owners, n - 1, n)
        moved = grown != owners
        assert np.all(grown[moved] == n - 1), "only slots bound for the new channel move"
        assert moved.sum() == 4096 // n, "exactly its fair share moves"
        counts = shares(grown, n)
        assert counts.max() - counts.min() <= 1
        assert counts.max() / counts.mean() < 1.1
        owners = grown
        path.append(owners)
    for n in range(63, 0, -1):
        shrunk = resize_slots(owners, n + 1, n)
        moved = shrunk != owners
        assert np.array_equal(moved, owners == n), "only the slots of the channel that leaves move"
        assert np.array_equal(shrunk, path[n - 1]), "growing and shrinking back restores the table"
        owners = shrunk


@given(st.integers(1, 300), st.data())
def test_balanced_slots_depend_on_the_sizes_alone(slots: int, data: st.DataObject) -> None:
    channels = data.draw(st.integers(1, slots))
    detour = data.draw(st.integers(1, slots))
    there = resize_slots(balanced_slots(slots, channels), channels, detour)
    assert np.array_equal(there, balanced_slots(slots, detour))
    counts = shares(there, detour)
    assert counts.min() >= slots // detour
    assert counts.max() <= -(-slots // detour)


def slow_add_channel_counts(counts: list[int], taken: int) -> list[int]:
    left = list(counts)
    for _ in range(taken):
        left[left.index(max(left))] -= 1
    return left


@given(st.lists(st.integers(0, 4), min_size=6, max_size=80))
def test_a_new_channel_takes_from_those_who_hold_the_most(owners: list[int]) -> None:
    column = np.array(owners, np.int32)
    grown = add_channel(column, 6)
    expected = slow_add_channel_counts(shares(column, 5).tolist(), len(column) // 6)
    assert shares(grown, 6).tolist() == [*expected, len(column) // 6]
    assert np.all((grown == column) | (grown == 5))


def test_the_shared_array_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        balanced_slots(8, 2)[0] = 1
