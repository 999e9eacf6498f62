from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.splitters import reference

from unskew.errors import ArgumentError, RoutingError
from unskew.routing import RoutingTable
from unskew.splitters import SplitKeys

CHANNELS = 6
lists = st.lists(st.integers(0, CHANNELS - 1), min_size=1, max_size=CHANNELS, unique=True)


@given(
    st.lists(st.integers(-3, 12), max_size=100),
    st.dictionaries(st.integers(-3, 6), lists, max_size=5),
    st.lists(st.integers(0, 30), min_size=CHANNELS, max_size=CHANNELS),
)
def test_split_keys_choose_and_whole_ones_go_to_their_owner(hashes, split, loads):
    column = np.array(hashes, np.int64)
    owners = np.mod(column, CHANNELS).astype(np.int32)
    routed = SplitKeys.of_table(split).route(column, owners, loads)
    assert routed.channels.tolist() == reference.split_keys(hashes, owners.tolist(), loads, split)
    assert routed.loads.tolist() == (np.array(loads) + np.bincount(routed.channels, minlength=CHANNELS)).tolist()
    assert owners.tolist() == np.mod(column, CHANNELS).tolist()


def test_entries_of_a_routing_table():
    table = RoutingTable.initial(4).with_split({7: (2, 0)})
    hashes = np.array([7, 8, 7, 7])
    routed = SplitKeys.of_table(table.split).route(hashes, table.lookup(hashes), np.zeros(4))
    assert routed.channels[[0, 2, 3]].tolist() == [2, 0, 2]
    assert routed.channels[1] == table.lookup([8])[0]


def test_keys_that_go_everywhere_share_one_list():
    split = SplitKeys.everywhere(np.array([3, 4]), 5)
    assert split.candidates(3) == split.candidates(4) == (0, 1, 2, 3, 4)
    routed = split.route(np.array([3, 4, 3, 4, 3]), np.zeros(5, np.int32), [0, 0, 0, 0, 0])
    assert routed.channels.tolist() == [0, 1, 2, 3, 4]


def test_wrong_input_is_refused():
    split = SplitKeys.of_table({1: (0, 5)})
    with pytest.raises(RoutingError, match=r"channel 5 is not in 0\.\.3"):
        split.route(np.array([1]), np.zeros(1, np.int32), np.zeros(4))
    with pytest.raises(ArgumentError, match="one owner per tuple"):
        split.route(np.array([1]), np.zeros(2, np.int32), np.zeros(6))
    with pytest.raises(RoutingError, match="needs candidates, got 3"):
        SplitKeys.of_table({1: (0, 1), 3: ()})
    with pytest.raises(ArgumentError, match="between 0 and"):
        split.route(np.array([1]), np.zeros(1, np.int32), [-1, 0, 0, 0, 0, 0])
