"""Rounds follow from their seed and number, and take all faults in turn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from chaos.faults import possible
from chaos.rounds import drawn, fault_of, write_data

FAULTS = tuple(possible())


def test_a_round_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    assert drawn(1, 5, FAULTS) == drawn(1, 5, FAULTS)
    assert drawn(1, 5, FAULTS) != drawn(2, 5, FAULTS)
    tables = [write_data(drawn(1, 3), tmp_path / name)[0] for name in ("first", "second")]
    assert tables[0] == tables[1]


def test_every_fault_has_its_turn_and_the_first_has_more() -> None:
    turns = Counter(fault_of(number, FAULTS) for number in range(3 * 4 * 5 * (len(FAULTS) - 1)))
    assert set(turns) == {"", *FAULTS}
    others = [turns[fault] for fault in FAULTS[1:]]
    assert len(set(others)) == 1, "all others as often"
    assert turns[FAULTS[0]] > others[0]


def test_every_victim_dies_in_every_round_of_a_cluster() -> None:
    victims = Counter(strike.victim for number in range(1, 300, 3) for strike in drawn(1, number).strikes)
    assert set(victims) == {"worker", "executor", "driver"}
    batches = [strike.batch for strike in drawn(1, 1).strikes]
    assert batches == sorted(batches)
    assert batches[-1] < drawn(1, 1).batches, "all have their turn before the rows end"
