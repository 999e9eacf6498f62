from __future__ import annotations

import dataclasses

import pytest

from unskew.errors import ArgumentError, FormatError, RoutingError
from unskew.kafka.costs import ConsumerCosts, GroupUse
from unskew.kafka.decision import GatewayDecision, Route, home_of
from unskew.kafka.messages import CLOSE, OPEN, set_id
from unskew.kafka.planning import Decider, Window
from unskew.planners import planner

NOW = 1_700_000_000_000


def cold(partitions=4, **more):
    return GatewayDecision.cold(partitions, now_ms=NOW, **more)


def away(key, partitions=4, by=1):
    return (home_of(key, partitions) + by) % partitions


def test_sets_of_a_key_follow_each_other():
    first, second = away(b"k"), away(b"k", by=2)
    one = cold().following(1).with_moves({b"k": first})
    two = one.counted({b"k": 7, b"x": 3}).following(2).with_moves({b"k": second})
    close, opening = two.markers
    g = one.generation
    assert (close.partition, close.mark.flag, close.mark.set_id) == (first, CLOSE, set_id(g, 1))
    assert (close.mark.neighbour, close.mark.partition, close.mark.messages) == (set_id(g, 2), second, 7)
    assert (opening.partition, opening.mark.flag, opening.mark.set_id) == (second, OPEN, set_id(g, 2))
    assert (opening.mark.neighbour, opening.mark.partition) == (set_id(g, 1), first)
    assert two.routes == {b"k": Route(second, set_id(g, 2), 0)}


def test_a_key_that_comes_home_leaves_the_table_and_its_next_set_is_newer():
    one = cold().following(1).with_moves({b"k": away(b"k")})
    home = one.following(2).with_moves({b"k": home_of(b"k", 4)})
    assert home.routes == {}
    again = home.following(3).with_moves({b"k": away(b"k")})
    ids = [marker.mark.set_id for d in (one, home, again) for marker in d.markers if marker.mark.flag == OPEN]
    assert ids == sorted(set(ids))
    assert again.markers[0].mark.set_id >= ids[1], "the set that ends at home is not older than the one that began"


def test_numbers_never_go_back():
    d = cold().with_moves({b"k": away(b"k")})
    numbers = [marker.mark.sequence for marker in d.markers]
    assert numbers == sorted(numbers) and numbers[-1] < d.first_row_sequence
    after = d.following(1).with_moves({b"k": away(b"k", by=2)})
    assert after.markers[0].mark.sequence > d.first_row_sequence + 8 * 10**8
    lost = after.following(2, restarted_at_ms=NOW + 1000)
    assert lost.first_row_sequence > after.first_row_sequence and lost.generation == d.generation + 1
    later = GatewayDecision.cold(4, now_ms=NOW + 3_600_000)
    assert later.first_row_sequence > lost.first_row_sequence and later.generation > lost.generation
    assert GatewayDecision.cold(4, now_ms=2_500_000_000_000).first_row_sequence < 2**63


def test_counts_that_were_lost_stay_unknown():
    d = cold().with_moves({b"k": away(b"k")}).counted(None).following(1).counted({b"k": 5})
    assert d.routes[b"k"].messages is None
    assert d.following(2).with_moves({b"k": away(b"k", by=2)}).markers[0].mark.messages is None


def test_decisions_come_back_as_they_were_written():
    d = cold(lane="g1").with_moves({b"k": away(b"k"), b"\xff\x00": away(b"\xff\x00")})
    again = GatewayDecision.from_bytes(d.to_bytes())
    assert {f.name: getattr(again, f.name) for f in dataclasses.fields(d)} == {
        f.name: getattr(d, f.name) for f in dataclasses.fields(d)
    }
    with pytest.raises(FormatError):
        GatewayDecision.from_bytes(b"[]")


def test_the_table_routes_like_the_decision():
    keys = [b"key%d" % i for i in range(50)]
    d = cold().with_moves({key: away(key) for key in keys[:10]})
    from unskew.kafka.decision import hashes_of

    assert d.table.lookup(hashes_of(keys, 4)).tolist() == [d.partition_of(key) for key in keys]


def test_one_epoch_a_batch_and_partitions_that_exist():
    moved = cold().with_moves({b"k": away(b"k")})
    with pytest.raises(RoutingError, match="moves already"):
        moved.with_moves({b"k": 0})
    with pytest.raises(RoutingError, match="partition 4"):
        cold().with_moves({b"k": 4})
    assert cold().with_moves({b"k": home_of(b"k", 4)}).epoch == 0


@pytest.mark.parametrize("name", ["smalops", "mixed"])
def test_a_planner_spreads_what_hashing_piled_up(name):
    partitions = 4
    keys = [key for i in range(1000) if home_of(key := b"hot%d" % i, partitions) == 0][:8]
    window = Window()
    window.add(1000, dict.fromkeys(keys, 100))
    decider = Decider(planner(name), interval_seconds=10)
    d, report = decider.decide(cold(partitions), window, NOW + 9_999)
    assert report is None and d.epoch == 0 and window.rows == 1000
    d, report = decider.decide(cold(partitions), window, NOW + 10_000)
    assert report is not None and d.epoch == 1 and window.rows == 0
    loads = [sum(d.partition_of(key) == p for key in keys) for p in range(partitions)]
    assert loads == [2, 2, 2, 2]
    assert len(d.markers) == 2 * len(d.routes)


def test_a_key_that_cools_goes_home_after_two_windows():
    hot = [key for i in range(100) if home_of(key := b"hot%d" % i, 2) == 0][:4]
    decider, window, d, now = Decider(planner("smalops")), Window(), cold(2), NOW
    for keys in (hot, [b"other"], [b"other"], [b"other"]):
        now += 10_000
        window.add(400, dict.fromkeys(keys, 100))
        d = d.following(d.batch_id + 1)
        d, _ = decider.decide(d, window, now)
    assert not set(hot) & set(d.routes)


def test_planners_that_move_slots_do_not_fit():
    window = Window()
    window.add(100, {b"a": 100})
    decision = cold(2)

    class Swap(type(planner("keep"))):
        def slots(self, table, channels):
            return table.slots[::-1].copy()

    with pytest.raises(ArgumentError, match="moves slots"):
        Decider(Swap()).decide(decision, window, NOW + 10_000)


def test_the_window_forgets_light_keys_only():
    window = Window()
    window.add(300_000, {b"heavy": 100_000})
    window.add(200_000, {b"%d" % i: 1 for i in range(100_001)})
    assert window.keys[b"heavy"] == 100_000 and len(window.keys) <= 50_001
    assert window.statistics(4).total_tuples == 500_000


@pytest.mark.parametrize(("move_seconds", "moves"), [(0.001, True), (1.0, False)])
def test_measured_costs_and_lags_decide_whether_a_move_pays(move_seconds, moves):
    """500 messages of 50 microseconds more wait at home than elsewhere: 25 ms. Moving takes 1 ms, or a second."""
    names = [b"key%d" % i for i in range(400)]
    hot = [name for name in names if home_of(name, 2) == 0][:4]
    window = Window()
    window.add(4000, dict.fromkeys(hot, 1000))
    use = GroupUse(
        (500, 0), ConsumerCosts(messages=1000, message_seconds=0.05, moves=10, move_seconds=10 * move_seconds)
    )
    decider = Decider(planner("smalops", rule="backlog", first_place="stay"))
    decision, _ = decider.decide(cold(2), window, NOW + 10_000, use)
    assert bool(decision.markers) == moves


def test_what_the_user_has_set_stays():
    costs = ConsumerCosts(messages=10, message_seconds=1.0, moves=10, move_seconds=2.0)
    assert costs.inform(planner("smalops", move_seconds=7.0)).move_seconds == 7.0
    assert costs.inform(planner("mixed")) == planner("mixed")
    assert ConsumerCosts().inform(planner("smalops")) == planner("smalops")
