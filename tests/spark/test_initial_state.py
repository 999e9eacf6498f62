"""State to begin with, without Spark: where event time goes on, and what becomes of rows that tell nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from unskew.errors import ColumnError
from unskew.operators import WindowAggregate
from unskew.operators.base import EVENT_TIME_METADATA
from unskew.operators.native_buffers import BUFFERS
from unskew.planners import planner
from unskew.runtime.engine import Engine
from unskew.runtime.jobs import Facts, Work
from unskew.runtime.log import RecordLog
from unskew.runtime.record import Output
from unskew.runtime.settings import Channels, Planning, Settings
from unskew.runtime.wire import unpack
from unskew.spark.initial_state import StateParcels
from unskew.spark.per_key import PandasProcessor
from unskew.state.files import Files
from unskew.testing.jobs import LocalJobs

INSTANT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema({"user": pa.string(), "at": INSTANT}, metadata={EVENT_TIME_METADATA: b"at"})


def at(*seconds: int) -> pa.Table:
    return pa.table([["ada"] * len(seconds), pa.array([s * 1_000_000 for s in seconds], INSTANT)], schema=SCHEMA)


def native(*windows: tuple[str, int, int, int]) -> pa.Table:
    """Return the state of a native query: user, start and end of a window in seconds, and a count."""
    spans = [{"start": start * 1_000_000, "end": end * 1_000_000} for _, start, end, _ in windows]
    return pa.table(
        {
            "user": [user for user, *_ in windows],
            "window": pa.array(spans, pa.struct({"start": INSTANT, "end": INSTANT})),
            BUFFERS: [{"count_0": n} for *_, n in windows],
        }
    )


def test_event_time_goes_on_where_it_was_also_after_a_restart(tmp_path: Path) -> None:
    operator = WindowAggregate("1 minute", n="count").bind(SCHEMA, ("user",))
    settings = Settings(Channels(2, slots=16), Planning(planner("mixed")))
    known = native(("ada", 60, 120, 7), ("bob", 60, 120, 5), ("bob", 120, 180, 4))

    def initial(work: Work) -> Any:
        return StateParcels(operator, work.route.table, work.route.task_of)(0, iter(known.to_batches()))

    shown: dict[int, list[tuple[str, int, int]]] = {}

    def sink(output: Output, batch_id: int) -> None:
        rows = [row for blob in output.inline for row in unpack(blob).to_pylist()]
        shown[batch_id] = sorted((row["user"], int(row["window"]["end"].timestamp()), row["n"]) for row in rows)

    def run(engine: Engine, batch_id: int, watermark_s: int, rows: pa.Table) -> None:
        facts = Facts(batch_id, str(batch_id), 0, watermark_s * 1000, not len(rows))
        engine.run(facts, LocalJobs([rows], initial=initial if batch_id == 0 else None), sink)

    def engine(last_s: int = 0, next_s: int = 0) -> Engine:
        log, reached = RecordLog(Files(str(tmp_path))), (last_s * 1000, next_s * 1000)
        return Engine(operator, settings, log, "query", cache_folder=str(tmp_path / "cache"), watermarks_ms=reached)

    # the native query had reached 60 s in its last batch, and would have begun the next one with 120 s
    run(engine(last_s=60, next_s=120), 0, 0, at(30, 90))
    assert shown[0] == [("ada", 120, 8), ("bob", 120, 5)], "30 s is late, 90 s is not; what ends at 120 s is closed"
    again = engine()
    run(again, 1, 0, at(100, 130))
    assert shown[1] == [], "100 s is late now, and Spark's own watermark has not begun"
    run(again, 2, 200, at())
    assert shown[2] == [("ada", 180, 1), ("bob", 180, 4)]


def test_windows_that_the_query_could_not_have_made_are_refused() -> None:
    operator = WindowAggregate("1 minute", "20 seconds", n="count").bind(SCHEMA, ("user",))
    operator.taken_over(native(("ada", 20, 80, 1)))
    for start, end in ((30, 90), (20, 100)):
        with pytest.raises(ColumnError, match="not those of this one"):
            operator.taken_over(native(("ada", start, end, 1)))


class Everything(StatefulProcessor):
    """Has state of every kind."""

    def init(self, handle: Any) -> None:
        text, number = StructType().add("what", StringType()), StructType().add("n", LongType())
        handle.getMapState("seen", text, number, ttlDurationMs=3_600_000)
        handle.getValueState("last", text, ttlDurationMs=1)
        handle.getListState("notes", number, ttlDurationMs=1)
        handle.getValueState("user", StructType().add("at", TimestampType()))
        handle.getListState("new", number)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        yield from ()


def test_state_of_a_processor_with_its_expiries_and_timers() -> None:
    operator = PandasProcessor(Everything(), StructType().add("n", LongType()), "ProcessingTime")
    operator = operator.bind(pa.schema({"user": pa.string(), "amount": pa.int64()}), ("user",))
    text, number = pa.struct({"what": pa.string()}), pa.struct({"n": pa.int64()})
    held = {
        "user": ["ada", "bob", "cy"],
        "seen": pa.array(
            [[{"key": {"what": "x"}, "value": {"n": 1}}, {"key": {"what": "y"}, "value": {"n": 2}}], None, None],
            pa.list_(pa.struct({"key": text, "value": number})),
        ),
        "seen_expires_ms": [[5_000_001, 5_000_000], None, None],
        "last": pa.array([None, {"what": "q"}, None], text),
        "last_expires_ms": pa.array([None, 11, None]),
        "notes": pa.array([None, [{"n": 1}, {"n": 2}, {"n": 3}], None], pa.list_(number)),
        "notes_expires_ms": [None, [9, 9, 7], None],
        "state_user": pa.array([{"at": 1_000_000}, None, None], pa.struct({"at": INSTANT})),
        "timers_ms": [[4_000, 3_000], None, None],
    }
    table = pa.table(held)
    columns = operator.state_columns(table.schema)
    assert columns == tuple(name for name in held if name != "user")
    values, known = operator.taken_over(table.select(["user", *columns]))
    assert known.tolist() == [True, True, False], "nothing is known of cy"
    for name, column in held.items():
        if name not in ("user", "timers_ms"):
            assert values[name.removeprefix("state_")].to_pylist() == table[name].to_pylist(), (name, column)
    assert values["timers_ms"].to_pylist() == [[3_000, 4_000], None, None]
    assert values["deadline_ms"].to_pylist() == [3_000, 7, None]
    assert values["new"].to_pylist() == [None, None, None], "a variable that is new begins empty"

    for lacks, says in (("last_expires_ms", "does not say when"), ("user", "lacks a column, got 'user'")):
        with pytest.raises(ColumnError, match=says):
            operator.state_columns(table.drop_columns(lacks).schema)
    for extra, says in (("old", "would be lost, got 'old'"), ("new", r"not the state new: list<struct<n:bigint>>")):
        with pytest.raises(ColumnError, match=says):
            operator.state_columns(table.append_column(extra, [["", "", ""]]).schema)
