"""What the control log keeps, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from unskew.routing.table import RoutingTable
from unskew.spark.control_log import ControlLog
from unskew.spark.decision import Decision
from unskew.spark.files import read_entry

pytestmark = pytest.mark.spark


def test_state_that_waits_for_its_channel_is_kept_however_long(spark, tmp_path: Path) -> None:
    log = ControlLog(spark, str(tmp_path))
    waits, installed = log.write_moved(1, 2, b"waits"), log.write_moved(1, 3, b"installed")
    table = RoutingTable.initial(4, 16)
    before, after = Decision(40, table, install={2: (waits,)}), Decision(41, table)
    log.forget_before(39, before, after)
    assert Path(installed).exists(), "it looks every few batches only"
    log.forget_before(40, before, after)
    assert read_entry(waits) == b"waits", "batch 40 may run again"
    assert not Path(installed).exists()
    log.forget_before(50, after)
    assert not Path(waits).exists()


def test_a_start_that_ran_no_batch_does_not_say_which_query_it_is(spark, tmp_path: Path) -> None:
    log = ControlLog(spark, str(tmp_path))
    name = log.identify({"key": ["a"]})
    assert log.known("key") is None
    other = log.identify({"key": ["b"]})
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").touch()
    assert log.known("key") == ["b"]
    assert log.identify({"key": ["b"]}) == other != name
