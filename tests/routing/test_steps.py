import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unskew.routing import RoutingTable
from unskew.routing.steps import step_towards

channel = st.integers(0, 3)
tables = st.builds(
    lambda slots, explicit, split: RoutingTable(4, slots, list(explicit), list(explicit.values())).with_split(split),
    st.lists(channel, min_size=6, max_size=6),
    st.dictionaries(st.integers(-20, 20), channel, max_size=6),
    st.dictionaries(st.integers(-20, 20), st.permutations(range(4)).map(lambda p: tuple(p[:3])), max_size=4),
)
whole_tables = tables.map(lambda table: table.with_split({}))
KEYS = np.arange(-30, 30)


@given(whole_tables, whole_tables, st.randoms(use_true_random=False))
def test_any_order_of_steps_moves_each_key_once_and_ends_at_the_target(old, target, random) -> None:
    table, place, hops = old, old.lookup(KEYS), np.zeros(len(KEYS), int)
    version = old.version
    while len(moves := table.moves_to(target)):
        slots, keys = ([random.random() < 0.5 for _ in column] for column in (moves.slots, moves.keys))
        if not any(slots) and not any(keys):
            continue
        version += 1
        table = step_towards(table, target, moves.only(slots, keys), version)
        assert table.version == version
        hops += table.lookup(KEYS) != place
        place = table.lookup(KEYS)
    assert np.array_equal(place, target.lookup(KEYS))
    assert np.array_equal(hops, (old.lookup(KEYS) != target.lookup(KEYS)).astype(int))
    assert version == old.version or table.routes_like(target)


@given(tables, tables, st.randoms(use_true_random=False))
def test_state_is_only_where_a_key_may_live_whatever_is_split(old, target, random) -> None:
    """Every channel that may have state has some; it goes where moves say, and must then lie among the candidates."""
    table, version = old, old.version
    holders = {key: set(old.candidates(key)) for key in KEYS.tolist()}
    while len(moves := table.moves_to(target)):
        slots, keys = ([random.random() < 0.5 for _ in column] for column in (moves.slots, moves.keys))
        done = moves.only(slots, keys)
        if not len(done):
            continue
        version += 1
        listed = {*table.listed_keys.tolist(), *target.listed_keys.tolist()}
        for move in done:
            alone = [key for key in KEYS.tolist() if key not in listed and key % 6 == move.id]
            for key in [move.id] if move.kind == "key" else alone:
                if key in holders and move.source in holders[key]:
                    holders[key] = (holders[key] - {move.source}) | {move.target}
        table = step_towards(table, target, done, version)
        for key, channels in holders.items():
            assert channels <= set(table.candidates(key)), (key, channels, table.candidates(key))
    for key, channels in holders.items():
        assert channels <= set(target.candidates(key))
