"""The driver's side of a running query: materialise a batch once, serve the sink, decide about the next batch."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQueryManager
from pyspark.sql.types import StructType

from unskew.errors import CheckpointError
from unskew.operators import Operator
from unskew.planners.report import Report
from unskew.routing.moves import Moves
from unskew.spark.control_log import ControlLog
from unskew.spark.controller import Controller
from unskew.spark.decision import Decision
from unskew.spark.figures import BatchFigures
from unskew.spark.learning import Learned, channel_schema
from unskew.spark.output import materialised
from unskew.spark.prometheus import Totals
from unskew.spark.reports import ChannelReport
from unskew.spark.scaling import Scaling
from unskew.spark.sinks import Sink
from unskew.spark.task import DECISION_PROPERTY

HISTORY = 1000


class Runtime:
    """Runs inside ``foreachBatch``, on the stream's own thread.

    What is believed is what the committed attempt produced: the batch's whole output is materialised once, the
    channels' reports are taken out of it, then the user's sink sees the rest, as often as it likes.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        log: ControlLog,
        controller: Controller,
        sink: Sink,
        output_schema: StructType,
        operator: Operator,
        first: Decision,
        scaling: Scaling | None = None,
        memory_bytes: tuple[int, ...] = (),
    ) -> None:
        self._spark, self._name, self._log, self._controller = spark, name, log, controller
        self._sink, self._output_schema, self._operator, self._scaling = sink, output_schema, operator, scaling
        self._lock = threading.Lock()
        self._output_bytes: int | None = None
        self._state_bytes: dict[int, int] = {}
        self._reports: Mapping[int, ChannelReport] = {}
        self._plans: deque[tuple[int, Report]] = deque(maxlen=HISTORY)
        self._moves: deque[tuple[int, Moves]] = deque(maxlen=HISTORY)
        self._figures: deque[BatchFigures] = deque(maxlen=HISTORY)
        self.totals = Totals()
        self._channels: int | None = None
        self._memory_bytes = memory_bytes
        self.decision = first

    def announce(self, decision: Decision) -> None:
        """Tell the tasks of a batch what was decided for it; binds the calling thread and those it starts."""
        context = self._spark.sparkContext
        context.setLocalProperty(f"{DECISION_PROPERTY}.{self._name}.{decision.batch_id}", decision.for_tasks())

    def withdraw(self, batch_id: int) -> None:
        """Take back what was announced for a batch."""
        nothing: Any = None
        self._spark.sparkContext.setLocalProperty(f"{DECISION_PROPERTY}.{self._name}.{batch_id}", nothing)

    def resize(self, channels: int) -> None:
        """Wish for another number of channels; planned for when the running batch ends."""
        with self._lock:
            self._channels = channels

    def limit_memory(self, memory_bytes: tuple[int, ...]) -> None:
        """Let channels hold that much of their state from the next batch on."""
        with self._lock:
            self._memory_bytes = memory_bytes

    def on_batch(self, output: DataFrame, batch_id: int) -> None:
        """Take in a batch's output; called by Spark."""
        started = time.monotonic()
        last = self._decision_for(batch_id)
        schema = channel_schema(self._operator, self._output_schema)
        held = sum(self._state_bytes.values())
        with materialised(output, schema, self._operator, self._output_bytes, held) as batch:
            learned = Learned.of(self._operator, last, batch.rows, self._output_schema)
            self._sink(learned.rows, batch_id)
            self._output_bytes = batch.bytes
            self._state_bytes |= {report.channel: report.state_bytes for report in batch.reports}
            self._decide(last, {report.channel: report for report in batch.reports}, learned, started)

    def _decision_for(self, batch_id: int) -> Decision:
        found = self.decision if self.decision.batch_id == batch_id else self._log.read_decision(batch_id)
        if found is None:
            raise CheckpointError(
                f"there is no decision for batch {batch_id}", where=self._log.root, hint="restore the checkpoint"
            )
        return found

    def _decide(self, last: Decision, reports: Mapping[int, ChannelReport], learned: Learned, started: float) -> None:
        batch_id = last.batch_id
        self._scale(last, time.monotonic() - started)
        with self._lock:
            channels, memory_bytes = self._channels, self._memory_bytes
        decision, plan = self._controller.next_decision(
            last,
            reports,
            lambda channel, state: self._log.write_moved(batch_id + 1, channel, state),
            now_ms=int(time.time() * 1000),
            channels=channels,
            memory_bytes=memory_bytes,
        )
        decision = replace(decision, learned=learned.learned, lesson=learned.lesson)
        self._log.write_decision(decision)
        self._log.forget_before(batch_id, last, decision)
        self.announce(decision)
        self.withdraw(batch_id - 1)
        figures = BatchFigures.of(last, reports, plan)
        with self._lock:
            self.decision, self._reports = decision, reports
            self._figures.append(figures)
            self.totals.add(figures)
            if decision.target is not None and decision.target.channels == self._channels:
                self._channels = None
            if plan is not None:
                self._plans.append((batch_id, plan))
            if len(decision.extract):
                self._moves.append((decision.batch_id, decision.extract))

    def _scale(self, last: Decision, seconds: float) -> None:
        """Let the number of channels follow the load; another number that is on its way is waited for."""
        if self._scaling is None or (last.target is not None and last.target.channels != last.table.channels):
            return
        wanted = self._scaling.after_batch(last.table.channels, seconds)
        if wanted is not None:
            self.resize(wanted)

    @property
    def reports(self) -> Mapping[int, ChannelReport]:
        """The channels' reports of the last batch."""
        with self._lock:
            return dict(self._reports)

    @property
    def plans(self) -> list[tuple[int, Report]]:
        """The last plans, each with the batch after which it was made."""
        with self._lock:
            return list(self._plans)

    @property
    def moves(self) -> list[tuple[int, Moves]]:
        """The last moves, each with the batch at whose end the state leaves."""
        with self._lock:
            return list(self._moves)

    @property
    def figures(self) -> list[BatchFigures]:
        """The last batches in figures."""
        with self._lock:
            return list(self._figures)

    @property
    def streams(self) -> StreamingQueryManager:
        """Where Spark's listeners are added."""
        return self._spark.streams
