import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.errors import RoutingError
from unskew.routing import RoutingTable

SLOTS = 12
channel = st.integers(0, 3)
key = st.integers(-40, 40)


@st.composite
def tables(draw: st.DrawFn) -> RoutingTable:
    slots = draw(st.lists(channel, min_size=SLOTS, max_size=SLOTS))
    explicit = draw(st.dictionaries(key, channel, max_size=8))
    split = draw(st.dictionaries(key, st.lists(channel, min_size=2, max_size=3, unique=True).map(tuple), max_size=3))
    explicit = {k: c for k, c in explicit.items() if k not in split}
    return RoutingTable(4, slots, list(explicit), list(explicit.values()), split)


def slow_candidates(table: RoutingTable, key: int) -> tuple[int, ...]:
    """The definition, word by word."""
    if key in table.split:
        return table.split[key]
    explicit = dict(zip(table.explicit_hashes.tolist(), table.explicit_channels.tolist(), strict=True))
    if key in explicit:
        return (explicit[key],)
    return (int(table.slots[key % len(table.slots)]),)


@given(tables(), st.lists(st.integers(-(2**63), 2**63 - 1) | key))
def test_lookup_follows_the_definition(table: RoutingTable, keys: list[int]) -> None:
    assert table.lookup(keys).tolist() == [slow_candidates(table, k)[0] for k in keys]
    assert table.home(keys).tolist() == [int(table.slots[k % SLOTS]) for k in keys]
    assert [table.candidates(k) for k in keys] == [slow_candidates(table, k) for k in keys]


@pytest.mark.parametrize("slots", [5, 7, 4096, 5000])
def test_slots_agree_with_pmod_for_any_number_of_them(slots: int) -> None:
    rng = np.random.default_rng(1)
    hashes = rng.integers(-(2**63), 2**63 - 1, 10_000)
    owners = rng.integers(0, 5, slots).astype(np.int32)
    table = RoutingTable(5, owners).with_explicit(hashes[:500], np.full(500, 4))
    expected = [owners[h % slots] for h in hashes.tolist()]
    assert table.home(hashes).tolist() == expected
    assert table.lookup(hashes).tolist() == [4] * 500 + expected[500:]


@given(tables(), tables())
def test_moves_bring_all_state_where_the_new_table_expects_it(old: RoutingTable, new: RoutingTable) -> None:
    keys = range(-60, 60)
    state = {(k, c): 1 for k in keys for c in slow_candidates(old, k)}
    moves = old.moves_to(new)
    listed = {*old.explicit_hashes.tolist(), *new.explicit_hashes.tolist(), *old.split, *new.split}
    for move in moves:
        ids = [move.id] if move.kind == "key" else [k for k in keys if k % SLOTS == move.id and k not in listed]
        for k in ids:
            amount = state.pop((k, move.source))
            state[k, move.target] = state.get((k, move.target), 0) + amount
    for k in keys:
        held = {c for key, c in state if key == k}
        assert held <= set(slow_candidates(new, k)), "no channel holds state of a key it may not hold"
        assert sum(state[k, c] for c in held) == len(slow_candidates(old, k)), "nothing lost, nothing invented"
    assert len(old.moves_to(old)) == 0


def test_every_edit_gives_a_new_version_and_leaves_the_old_table_alone() -> None:
    table = RoutingTable.initial(4)
    edited = table.with_explicit([5], [2]).with_split({5: (1, 3)}).with_slots(np.zeros(4096))
    assert (table.version, edited.version) == (0, 3)
    assert len(table.explicit_hashes) == 0
    assert len(edited.explicit_hashes) == 0
    assert edited.candidates(5) == (1, 3)
    with pytest.raises(ValueError, match="read-only"):
        edited.slots[0] = 3


def test_growing_keeps_entries_and_moves_about_a_fair_share() -> None:
    table = RoutingTable.initial(7).with_explicit([1, 2], [6, 0])
    grown = table.resize(8)
    assert grown.lookup([1, 2]).tolist() == [6, 0]
    assert len(table.moves_to(grown)) == 4096 // 8
    assert set(table.moves_to(grown).slot_targets.tolist()) == {7}


def test_shrinking_drops_entries_of_channels_that_leave() -> None:
    table = RoutingTable.initial(4).with_explicit([1, 2], [3, 0]).with_split({7: (3, 1), 8: (0, 1), 9: (2, 3)})
    shrunk = table.resize(2)
    assert shrunk.explicit_hashes.tolist() == [2, 7]
    assert shrunk.explicit_channels.tolist() == [0, 1]
    assert shrunk.split == {8: (0, 1)}
    assert shrunk.slots.max() == 1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RoutingTable.initial(0), "at least one channel, got 0"),
        (lambda: RoutingTable.initial(9, slots=8), "8 slots cannot serve 9 channels. Hint: use at least 9"),
        (lambda: RoutingTable(2, [0, 1, 2]), r"channel 2 is not in 0\.\.1 \(in slot 2\)\. Hint: resize to 3 channels"),
        (
            lambda: RoutingTable.initial(8).with_explicit([1, 2], [0, 9]),
            r"channel 9 is not in 0\.\.7 .*explicit entry 1",
        ),
        (lambda: RoutingTable.initial(8).with_explicit([1], [-1]), "channels count from 0"),
        (lambda: RoutingTable.initial(8).with_explicit([1, 1], [0, 1]), "two explicit entries"),
        (lambda: RoutingTable.initial(8).with_explicit([1, 2], [0]), "one channel per hash"),
        (lambda: RoutingTable.initial(8).with_split({3: (1,)}), "two or more different channels"),
        (lambda: RoutingTable.initial(8).with_split({3: (1, 1)}), "two or more different channels"),
        (lambda: RoutingTable(8, np.zeros(8), [3], [0], {3: (0, 1)}), "both explicit and split"),
        (lambda: RoutingTable.initial(2, 8).moves_to(RoutingTable.initial(2, 9)), "different numbers of slots"),
    ],
)
def test_bad_tables_are_refused_with_a_reason(build: object, message: str) -> None:
    with pytest.raises(RoutingError, match=message):
        build()
