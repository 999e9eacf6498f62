import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unskew.routing import RoutingTable
from unskew.routing.steps import step_towards

channel = st.integers(0, 3)
tables = st.builds(
    lambda slots, explicit: RoutingTable(4, slots, list(explicit), list(explicit.values())),
    st.lists(channel, min_size=6, max_size=6),
    st.dictionaries(st.integers(-20, 20), channel, max_size=6),
)
KEYS = np.arange(-30, 30)


@given(tables, tables, st.randoms(use_true_random=False))
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
