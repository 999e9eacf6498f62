from __future__ import annotations

import pytest

from unskew_lab.demo import Batch, HotKey, Race
from unskew_lab.demo.race import Migration
from unskew_lab.demo.run import is_exact


def batch(number, seconds, rows, moves=0, by_hash=None, **totals):
    return Batch(number, seconds, rows, tuple(map(float, rows)), totals=totals, moves=moves, hash_imbalance=by_hash)


def race_of(hashed, balanced):
    race = Race()
    for racer, batches in (("hash", hashed), ("unskew", balanced)):
        for each in batches:
            race.add(racer, each)
    return race


def test_figures_are_over_the_batches_that_both_ended_without_the_first():
    slow = batch(0, 30.0, (100, 100))
    hashed = [slow, batch(1, 4.0, (300, 100)), batch(2, 2.0, (200, 200)), batch(3, 99.0, (400, 0))]
    balanced = [slow, batch(1, 1.0, (200, 200), moves=3, by_hash=1.5), batch(2, 2.0, (220, 180), moves=5, by_hash=1.1)]
    race = race_of(hashed, balanced)
    assert race.common == 3
    theirs, ours = race.figures("hash"), race.figures("unskew")
    assert (theirs.batches, theirs.rows, theirs.seconds, theirs.moves) == (2, 800, 6.0, 0)
    assert (ours.rows_per_second, ours.p50_seconds, ours.moves) == (pytest.approx(800 / 3), 1.5, 5)
    assert (theirs.mean_imbalance, theirs.worst_imbalance) == (pytest.approx(1.25), pytest.approx(1.5))
    assert (theirs.mean_hash_imbalance, ours.mean_hash_imbalance) == (None, pytest.approx(1.3))
    assert ours.p99_seconds == pytest.approx(1.99)
    assert race.speedup == pytest.approx(2.0)


def test_the_last_counts_are_those_of_the_batches_that_both_ended():
    hashed = [batch(0, 1.0, (2, 1), a=2, b=1), batch(1, 1.0, (1, 0), a=3), batch(2, 1.0, (1, 0), a=4)]
    race = race_of(hashed, hashed[:2])
    assert race.counts("hash") == race.counts("unskew") == {"a": 3, "b": 1}
    assert is_exact(race, {2: {"a": 3, "b": 1}}.__getitem__)
    assert not is_exact(race, lambda batches: {"a": 4, "b": 1})
    assert not is_exact(race, lambda batches: {"a": 3, "b": 1, "c": 1})


def test_a_migration_is_a_hot_key_with_another_channel():
    race = Race()
    for number, channels in enumerate([(0, 1), (0, 3), (2, 3)]):
        hot = (HotKey("a", 5, channels[0], 10 * number), HotKey("b", 4, channels[1], number), HotKey(f"{number}", 1, 0))
        race.add("unskew", Batch(number, 1.0, (5, 5), (1.0, 1.0), hot))
    assert race.migrations("unskew", 0) == []
    assert race.migrations("unskew", 1) == [Migration("b", 1, 1, 3, 0, 1)]
    assert race.migrations("unskew", 2) == [Migration("a", 2, 0, 2, 10, 20)]


def test_the_first_batch_stands_for_all_if_there_is_no_other():
    race = race_of([batch(0, 4.0, (1, 1))], [batch(0, 2.0, (1, 1))])
    assert race.speedup == pytest.approx(2.0)


def test_the_same_result_is_asked_of_every_batch_that_both_ended():
    first, second = batch(0, 1.0, (2, 1), a=2, b=1), batch(1, 1.0, (1, 0), a=3)
    assert race_of([first, second], [first, second]).same_result
    assert race_of([first, second], [first]).same_result
    assert not race_of([first, second], [first, batch(1, 1.0, (1, 0), a=4)]).same_result
    assert not race_of([first], [batch(0, 1.0, (2, 1), a=2)]).same_result
