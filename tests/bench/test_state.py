from __future__ import annotations

import pytest

import unskew
from unskew.errors import StateError
from unskew_lab.bench.collected import collected
from unskew_lab.bench.state import (
    QUICK,
    RESTART_BATCHES,
    WHOLE,
    Turns,
    delete_copies,
    own_cost,
    restarted,
    steady,
    touched_and_held,
)


def test_restarts_take_turns_and_copies_are_deleted_before_every_second_one():
    diary = []

    def restart(number):
        diary.append(number)
        return [4.0 if number % 2 else 2.0, 1.0, 3.0, 2.0]

    rows = restarted("restart", restart, lambda: diary.append("delete"), restarts=2)
    assert diary == [0, "delete", 1, 2, "delete", 3]
    there, gone = rows[:2]
    assert (there.name, there.value) == ("restart, local copy there: first batch over a later one", 1.0)
    assert (gone.name, gone.value) == ("restart, local copy gone: first batch over a later one", 2.0)
    assert (there.target, gone.target) == (None, None)
    assert all(getattr(WHOLE, name) > getattr(QUICK, name) for name in Turns.__dataclass_fields__)


def test_only_local_copies_are_deleted(tmp_path):
    copies, other = tmp_path / "blocks" / "unskew-state-7" / "query", tmp_path / "blocks" / "shuffle"
    for folder in (copies, other):
        folder.mkdir(parents=True)
    delete_copies(tmp_path)
    assert (copies.exists(), other.exists()) == (False, True)
    with pytest.raises(StateError, match="no local copies"):
        delete_copies(tmp_path)


@pytest.mark.spark
@pytest.mark.slow
def test_the_own_cost_is_what_is_above_a_query_that_does_nothing(spark, tmp_path):
    own, *rows = own_cost(spark, tmp_path, 50, turns=2)
    medians = {row.contender: row.value for row in rows if row.name == "50 rows: batch, median"}
    assert own.value == pytest.approx(1e3 * (medians["drop-in"] - medians["empty foreachBatch"]))
    assert (own.unit, own.target, own.better) == ("ms", 170, "lower")


@pytest.mark.spark
@pytest.mark.slow
def test_a_large_state_runs_beside_a_small_one_and_goes_on_after_restarts(spark, tmp_path):
    deleted = []
    rows = touched_and_held(spark, tmp_path, 50, 1_000, turns=2, restarts=1, delete=lambda: deleted.append(True))
    assert deleted == [True]
    medians = {row.contender: row for row in rows if row.name == "50 keys touched: batch, median"}
    assert {who: len(row.samples) for who, row in medians.items()} == {"1,000 keys held": 2, "50 keys held": 2}
    assert rows[0].value == pytest.approx(medians["1,000 keys held"].value / medians["50 keys held"].value)
    counts = unskew.read_state(spark, str(tmp_path / "1,000 keys held checkpoint")).toArrow()
    assert counts.num_rows == 1_000
    assert sum(counts["n"].to_pylist()) == 1_000 + 50 * (3 + 2 + 2 * RESTART_BATCHES)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("kept", ["list", "map"])
def test_lists_and_maps_are_compared_with_their_contents_checked(spark, tmp_path, kept):
    ratio, *rows = collected(spark, tmp_path, kept, keys=3, entries=6, batches=2)
    assert (ratio.name, ratio.target) == (f"{kept} state, 3 of 6 entries a key, 3 keys: native over unskew", 5.0)
    medians = {row.contender: row.value for row in rows if row.name.endswith("median")}
    assert ratio.value == pytest.approx(medians["native"] / medians["unskew"])


@pytest.mark.spark
@pytest.mark.slow
def test_small_batches_on_many_known_keys_are_compared(spark, tmp_path):
    ratio, *rows = steady(spark, tmp_path, 5, 40, channels=2, turns=2)
    medians = {row.contender: row.value for row in rows if row.name.endswith("median")}
    assert ratio.value == pytest.approx(medians["unskew"] / medians["native"])
    assert (ratio.target, ratio.better) == (0.5, "lower")
    assert {row.contender for row in rows if row.name.endswith("99 %")} == {"native", "unskew"}
