"""What Spark's event log says about stages that hold state: who was the straggler, and what it cost."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import ArgumentError, FormatError

Column = NDArray[np.float64]

WANTED = tuple(
    f'{{"Event":"{name}"'
    for name in (
        "SparkListenerExecutorAdded",
        "SparkListenerJobStart",
        "SparkListenerJobEnd",
        "SparkListenerStageCompleted",
        "SparkListenerTaskEnd",
        "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
        "org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate",
    )
)
STATE_RDD = "StateStore"  # in the name of the RDDs that read and write state
STATE_INFO = re.compile(r"checkpoint = ([^,]+?)/state/?, ")
COMPRESSED = {".zstd": "zstd", ".zst": "zstd", ".gz": "gzip"}


@dataclass(frozen=True, eq=False)
class StatefulBatch:
    """One batch of a query: the tasks of its stage that holds state, by partition."""

    query: str
    batch_id: int
    operation: str  # as Spark calls it, such as StateStoreSave
    seconds: float  # of all jobs of the batch, from the first start to the last end
    stage_seconds: float
    task_seconds: Column  # of each partition, from launch to finish
    task_rows: Column  # that each partition read from the shuffle

    @property
    def straggler_seconds(self) -> float:
        """How much longer the longest task took than the mean."""
        return float(self.task_seconds.max() - self.task_seconds.mean())


@dataclass(frozen=True, eq=False)
class EventLog:
    """All that was found. Queries are in the order in which they started."""

    cores: int
    batches: tuple[StatefulBatch, ...]
    checkpoints: dict[str, str]  # of queries, as far as Spark's plans name them

    def of_query(self, query: str) -> list[StatefulBatch]:
        return [batch for batch in self.batches if batch.query == query]

    @property
    def busiest(self) -> str:
        """The query whose stragglers cost most."""
        queries = dict.fromkeys(batch.query for batch in self.batches)
        return max(queries, key=lambda query: sum(batch.straggler_seconds for batch in self.of_query(query)))


def read_event_log(path: str) -> EventLog:
    """Read a log: one file, or the folder of a log that Spark wrote in several files."""
    found = parse(line for file in _files(Path(path)) for line in _lines(file))
    if not found.batches:
        hint = "a stream with groupBy, a window, a join or a function per key has state"
        raise ArgumentError("this log has no query with state", where="source", got=path, hint=hint)
    return found


def _files(path: Path) -> list[Path]:
    if not path.exists():
        hint = "Spark writes logs to spark.eventLog.dir if spark.eventLog.enabled is true"
        raise ArgumentError("there is no such event log", where="source", got=str(path), hint=hint)
    if not path.is_dir():
        return [path]
    numbered = {int(match[1]): each for each in path.iterdir() if (match := re.match(r"events_(\d+)_", each.name))}
    if not numbered:
        logs = sorted(each.name for each in path.iterdir() if not each.name.startswith("."))
        hint = f"name one of {', '.join(logs[:5])}" if logs else "the folder is empty"
        raise ArgumentError("this folder is not one event log", where="source", got=str(path), hint=hint)
    return [numbered[number] for number in sorted(numbered)]


def _lines(file: Path) -> Iterator[str]:
    suffix = file.with_suffix("").suffix if file.suffix in (".inprogress", ".compact") else file.suffix
    if suffix in (".lz4", ".lzf", ".snappy"):
        hint = "set spark.eventLog.compression.codec to zstd, or unpack the log"
        raise FormatError("unskew cannot read this compression of Spark's", where=str(file), hint=hint)
    text = b""
    with pa.input_stream(str(file), compression=COMPRESSED.get(suffix)) as stream:
        try:
            while piece := stream.read(1 << 20):
                *whole, text = (text + piece).split(b"\n")
                yield from (line.decode() for line in whole)
        except OSError:
            return  # a job that still runs has not written the end yet
    if text.strip():
        yield text.decode()


def parse(lines: Iterable[str]) -> EventLog:
    """Read the events of one application."""
    cores, times = 0, dict[int, list[float]]()
    stages, jobs = dict[int, tuple[int, str]](), dict[int, dict[str, Any]]()
    spans, tasks = dict[int, float](), defaultdict[int, dict[int, tuple[float, float]]](dict)
    checkpoints, executions = dict[str, str](), dict[str, str]()
    for event in _events(lines):
        name = event["Event"].rpartition(".")[2].removeprefix("SparkListener")
        if name == "ExecutorAdded":
            cores += event["Executor Info"]["Total Cores"]
        elif name == "JobStart":
            job, properties = event["Job ID"], event.get("Properties") or {}
            jobs[job], times[job] = properties, [event["Submission Time"]]
            for info in event["Stage Infos"]:
                operation = _operation(info)
                if operation is not None:
                    stages[info["Stage ID"]] = job, operation
        elif name == "JobEnd" and event["Job ID"] in times:
            times[event["Job ID"]].append(event["Completion Time"])
        elif name == "StageCompleted":
            info = event["Stage Info"]
            if "Completion Time" in info and "Submission Time" in info:
                spans[info["Stage ID"]] = (info["Completion Time"] - info["Submission Time"]) / 1000
        elif name == "TaskEnd" and event["Stage ID"] in stages and event["Task End Reason"]["Reason"] == "Success":
            info, metrics = event["Task Info"], event.get("Task Metrics") or {}
            rows = metrics.get("Shuffle Read Metrics", {}).get("Total Records Read", 0)
            seconds = (info["Finish Time"] - info["Launch Time"]) / 1000
            tasks[event["Stage ID"]][info["Index"]] = seconds, rows
        elif "physicalPlanDescription" in event:
            place = STATE_INFO.search(event["physicalPlanDescription"])
            if place is not None:
                executions[str(event["executionId"])] = place[1]
    for properties in jobs.values():
        for name in ("spark.sql.execution.id", "spark.sql.execution.root.id"):  # a sink may start executions of its own
            if properties.get(name) in executions:
                checkpoints.setdefault(_query(properties), executions[properties[name]])
    seconds = _batch_seconds(jobs, times)
    batches = [
        _batch(jobs[job], operation, seconds, spans[stage], tasks[stage])
        for stage, (job, operation) in sorted(stages.items())
        if stage in spans and tasks[stage]
    ]
    return EventLog(max(cores, 1), tuple(batches), checkpoints)


def _events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith(WANTED):
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                return  # the last line of a log that is still written


def _operation(stage: dict[str, Any]) -> str | None:
    """Return what a stage does with state, by the name of Spark's operator; None if it holds none."""
    found = [rdd for rdd in stage["RDD Info"] if STATE_RDD in rdd["Name"]]
    names = [str(json.loads(rdd.get("Scope") or "{}").get("name", rdd["Name"])) for rdd in found]
    return min(names, key=lambda name: name.endswith("Restore"), default=None)  # Save says more than Restore


def _query(properties: dict[str, Any]) -> str:
    return str(properties.get("sql.streaming.queryId", "a batch job"))


def _batch_key(properties: dict[str, Any]) -> tuple[str, int]:
    return _query(properties), int(properties.get("streaming.sql.batchId", 0))


def _batch_seconds(jobs: dict[int, dict[str, Any]], times: dict[int, list[float]]) -> dict[tuple[str, int], float]:
    ends = defaultdict[tuple[str, int], list[float]](list)
    for job, properties in jobs.items():
        ends[_batch_key(properties)] += times[job]
    return {batch: (max(each) - min(each)) / 1000 for batch, each in ends.items()}


def _batch(
    properties: dict[str, Any],
    operation: str,
    seconds: dict[tuple[str, int], float],
    span: float,
    tasks: dict[int, tuple[float, float]],
) -> StatefulBatch:
    measured = np.zeros((max(tasks) + 1, 2))
    measured[list(tasks)] = list(tasks.values())
    query, batch_id = _batch_key(properties)
    whole = max(seconds[query, batch_id], span)
    return StatefulBatch(query, batch_id, operation, whole, span, measured[:, 0], measured[:, 1])
