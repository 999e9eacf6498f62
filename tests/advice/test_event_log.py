"""Event logs as Spark writes them, cut down to what is read."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from unskew.advice.event_log import parse, read_event_log
from unskew.advice.keys import KeyLoads
from unskew.advice.predict import BALANCE, COUNTING_SECONDS, NOW
from unskew.advice.timed import advise_event_log
from unskew.errors import ArgumentError, FormatError

SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
PLAN = "FlatMapGroupsInPandasWithState state info [ checkpoint = file:/ck/state, runId = 1, opId = 0, ver = 0]"


def dumped(event):
    return json.dumps(event, separators=(",", ":"))


def batch_events(batch, task_seconds, began=0, fixed_ms=500, reason="Success"):
    """Give the events of a batch: one job whose second stage holds state."""
    rdd = {"Name": "StateStoreRDD", "Scope": '{"id":"1","name":"FlatMapGroupsInPandasWithState"}'}
    infos = [
        {"Stage ID": 2 * batch, "RDD Info": [{"Name": "FileScanRDD"}]},
        {"Stage ID": 2 * batch + 1, "RDD Info": [rdd]},
    ]
    properties = {"sql.streaming.queryId": "q", "streaming.sql.batchId": str(batch), "spark.sql.execution.id": "7"}
    job = {"Event": "SparkListenerJobStart", "Job ID": batch, "Submission Time": began, "Stage Infos": infos}
    yield {"Event": SQL, "executionId": 7, "physicalPlanDescription": PLAN}
    yield {**job, "Properties": properties}
    start = began + fixed_ms
    for index, seconds in enumerate(task_seconds):
        info = {"Index": index, "Launch Time": start, "Finish Time": start + round(1000 * seconds)}
        yield {
            "Event": "SparkListenerTaskEnd",
            "Stage ID": 2 * batch + 1,
            "Task End Reason": {"Reason": reason},
            "Task Info": info,
            "Task Metrics": {"Shuffle Read Metrics": {"Total Records Read": round(100 * seconds)}},
        }
    end = start + round(1000 * max(task_seconds))
    stage = {"Stage ID": 2 * batch + 1, "Submission Time": start, "Completion Time": end}
    yield {"Event": "SparkListenerStageCompleted", "Stage Info": stage}
    yield {"Event": "SparkListenerJobEnd", "Job ID": batch, "Completion Time": end}


def log_of(*batches, cores=4):
    yield dumped({"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"})
    yield dumped({"Event": "SparkListenerExecutorAdded", "Executor Info": {"Total Cores": cores}})
    for batch, tasks in enumerate(batches):
        yield from map(dumped, batch_events(batch, tasks, began=100_000 * batch))


def test_tasks_of_stages_that_hold_state():
    log = parse(log_of([1.0, 2.0, 3.0, 6.0], [1.0, 1.0, 1.0, 5.0]))
    assert (log.cores, log.checkpoints) == (4, {"q": "file:/ck"})
    first, second = log.batches
    assert (first.batch_id, first.operation) == (0, "FlatMapGroupsInPandasWithState")
    assert first.task_seconds.tolist() == [1, 2, 3, 6]
    assert first.task_rows.tolist() == [100, 200, 300, 600]
    assert (first.seconds, first.stage_seconds, first.straggler_seconds) == (6.5, 6.0, 3.0)
    assert second.straggler_seconds == 3.0


def test_a_task_that_failed_does_not_count():
    lines = [*log_of([1.0, 2.0]), *map(dumped, batch_events(1, [9.0], reason="ExceptionFailure"))]
    assert [batch.batch_id for batch in parse(lines).batches] == [0]


def test_a_line_that_is_still_written_ends_the_log():
    lines = list(log_of([1.0, 2.0], [1.0, 2.0]))
    cut = [*lines[:-1], lines[-1][:20]]
    assert len(parse(cut).batches) == 2


def test_gain_by_hand_without_keys():
    advice = advise_event_log(parse(log_of([1.0, 1.0, 1.0, 5.0])), "log")
    assert advice.remedy(NOW).seconds == pytest.approx(5.5)
    assert advice.remedy(BALANCE).seconds == pytest.approx(0.5 + 2.0 + COUNTING_SECONDS, rel=0.05)
    assert (advice.skew_seconds, advice.hot_keys) == (pytest.approx(3.0), ())
    assert "upper bounds" in advice.found.error


def test_gain_by_hand_with_keys():
    # the straggler is one key with half of the work: balance can only give it a task of its own
    keys = KeyLoads.of_keys(["ada", "b", "c", "d", "e"], [4.0, 1, 1, 1, 1], [3, 0, 1, 2, 3], range(5), residues=16)
    advice = advise_event_log(parse(log_of([1.0, 1.0, 1.0, 5.0], [1.0, 1.0, 1.0, 5.0])), "log", keys, ("user",), "n")
    assert advice.remedy(BALANCE).seconds == pytest.approx(0.5 + 4.0 + COUNTING_SECONDS, rel=1e-3)
    assert advice.gain == pytest.approx(5.5 / (4.5 + COUNTING_SECONDS), rel=1e-3)
    assert (advice.hot_keys[0].key, advice.hot_keys[0].share) == ("ada", 0.5)
    assert len(advice.gains) == 2


def test_gains_are_of_the_whole_time_where_the_straggler_changes():
    first, second = [1.0, 1.0, 1.0, 5.0], [5.0, 1.0, 1.0, 1.0]
    one, both = (advise_event_log(parse(log_of(*each)), "log") for each in ([first], [first, second]))
    assert both.remedy(BALANCE).gain == pytest.approx(one.remedy(BALANCE).gain, rel=0.05)


@pytest.mark.parametrize("suffix", ["", ".zstd", ".inprogress", ".zstd.inprogress"])
def test_files_as_spark_names_them(tmp_path, suffix):
    file = tmp_path / f"app{suffix}"
    text = "\n".join(log_of([1.0, 2.0])).encode()
    with pa.output_stream(str(file), compression="zstd" if "zstd" in suffix else None) as stream:
        stream.write(text)
    assert len(read_event_log(str(file)).batches) == 1


def test_a_log_in_several_files(tmp_path):
    lines = list(log_of([1.0, 2.0], [1.0, 2.0]))
    for number, part in enumerate(np.array_split(lines, 11), 1):  # 10 comes after 9, not after 1
        (tmp_path / f"events_{number}_app").write_text("".join(f"{line}\n" for line in part))
    assert len(read_event_log(str(tmp_path)).batches) == 2


def test_what_cannot_be_read_is_said(tmp_path):
    with pytest.raises(ArgumentError, match="there is no such event log"):
        read_event_log(str(tmp_path / "nothing"))
    with pytest.raises(ArgumentError, match="not one event log"):
        read_event_log(str(tmp_path))
    (tmp_path / "app.lz4").write_bytes(b"x")
    with pytest.raises(FormatError, match="cannot read this compression"):
        read_event_log(str(tmp_path / "app.lz4"))
    (tmp_path / "app").write_text('{"Event":"SparkListenerLogStart"}\n')
    with pytest.raises(ArgumentError, match="this log has no query with state"):
        read_event_log(str(tmp_path / "app"))
