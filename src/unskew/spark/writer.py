"""``writeStream`` of a balanced stream: the methods of Spark's `DataStreamWriter`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import DataFrame

from unskew.errors import ArgumentError, CheckpointError
from unskew.routing.table import RoutingTable
from unskew.spark.channel import OUTPUT_SCHEMA, ChannelProcessor, ChannelSettings
from unskew.spark.check import REQUIRED, check_session
from unskew.spark.checkpoint_files import CheckpointFiles
from unskew.spark.control_log import ControlLog
from unskew.spark.decision import Decision
from unskew.spark.labels import channel_labels
from unskew.spark.per_key import PerKeyFunction, write_initial_state
from unskew.spark.progress import observed
from unskew.spark.query import BalancedQuery
from unskew.spark.router import ROUTED_SCHEMA, PackedRows, Router
from unskew.spark.runtime import Runtime
from unskew.spark.scaling import Scaling
from unskew.spark.sinks import Sink, make_sink
from unskew.spark.times import milliseconds
from unskew.spark.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unskew.spark.stage import Stage


# Spark would ask for the size of an Arrow batch at every row; with nested columns that takes longer the more rows there
# are. The number of rows in a batch stays limited, by spark.sql.execution.arrow.maxRecordsPerBatch.
BYTES_PER_BATCH, NO_LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1)

TIME_MODES = {"none": "None", "processing": "ProcessingTime", "event": "EventTime"}


class BalancedWriter:
    """Collects how a balanced stream is written, then starts it.

    Examples
    --------
    ``balanced.writeStream.option("checkpointLocation", path).foreachBatch(write).start()``
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._options: dict[str, str] = {}
        self._trigger: dict[str, Any] = {}
        self._format: str | None = None
        self._function: Sink | None = None
        self._name: str | None = None

    def outputMode(self, outputMode: str) -> Self:  # noqa: N802, N803
        """Say the output mode; it chooses that of windows, and must be that of any other operator.

        If nothing is said the operator's rules, of windows ``"append"``.
        """
        mode, stage = outputMode.lower(), self._stage
        if stage.in_mode is not None:
            self._stage = stage.in_mode(mode)
        elif mode != stage.output_mode:
            raise ArgumentError(
                f"the operator gives its rows in {self._stage.output_mode} mode",
                got=outputMode,
                hint=f'outputMode("{self._stage.output_mode}"), or none',
            )
        return self

    def option(self, key: str, value: Any) -> Self:
        """Set an option of the sink, or ``checkpointLocation``."""
        self._options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def options(self, **options: Any) -> Self:
        """Set several options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def trigger(self, **trigger: Any) -> Self:
        """Set the trigger: ``processingTime="5 seconds"``, ``once=True`` or ``availableNow=True``."""
        if "continuous" in trigger or "realTime" in trigger:
            raise ArgumentError(
                "balanced streams run in micro-batches", got=trigger, hint="use processingTime or availableNow"
            )
        self._trigger = trigger
        return self

    def format(self, source: str) -> Self:
        """Write in a format by name; see `unskew.spark.sinks.make_sink`."""
        self._format = source
        return self

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> Self:  # noqa: N802
        """Call ``func(rows, batch_id)`` for every batch. It may read the rows once, several times or not at all."""
        self._function = func
        return self

    def queryName(self, queryName: str) -> Self:  # noqa: N802, N803
        """Name the query."""
        self._name = queryName
        return self

    def start(self, path: str | None = None) -> BalancedQuery:
        """Start the query, or continue it from its checkpoint."""
        if path is not None:
            self.option("path", path)
        if self._stage.in_mode is not None:
            self.outputMode("append")
        spark = self._stage.events.sparkSession
        log = ControlLog(spark, self._checkpoint())
        if not self._stage.limited:
            self._stage = self._stage.with_max_channels(log.known("max_channels") or self._stage.max_channels)
        stage = self._stage
        name = log.identify(stage.identity())
        sink = self._function or make_sink(spark, self._format or "parquet", self._sink_options(), name, self._name)
        first = self._first_decision(log)
        runtime = Runtime(
            spark,
            name,
            log,
            stage.controller,
            sink,
            stage.output_schema,
            stage.operator,
            first,
            self._scaling(),
            stage.memory_bytes,
        )
        labels = channel_labels(stage.max_channels)
        settings = ChannelSettings(
            name,
            stage.operator,
            labels,
            stage.slots,
            stage.tracked_keys,
            stage.cache_bytes,
            workers=stage.controller.scheme is not None,
        )
        channels = (
            self._routed(name, PackedRows(labels))
            .groupBy("label")
            .transformWithStateInPandas(
                ChannelProcessor(settings), OUTPUT_SCHEMA, "Update", TIME_MODES[stage.operator.time_mode]
            )
        )
        writer = observed(channels).writeStream.outputMode("update").option("checkpointLocation", log.checkpoint)
        if self._trigger:
            writer = writer.trigger(**self._trigger)
        if self._name:
            writer = writer.queryName(self._name)
        with self._settings_of_the_query(len(labels)):
            check_session(spark)
            runtime.announce(first)
            try:
                started = writer.foreachBatch(runtime.on_batch).start()
                return BalancedQuery(started, runtime, stage.max_channels)
            finally:
                runtime.withdraw(first.batch_id)

    def _routed(self, name: str, packed: PackedRows) -> DataFrame:
        """Return the rows on their way to the channels: at once, or by way of the workers of a splitting scheme."""
        stage, scheme = self._stage, self._stage.controller.scheme
        router = Router(name, stage.operator, packed, stage.shuffled, scheme)
        routed = stage.events.mapInArrow(router, ROUTED_SCHEMA)
        if scheme is None:
            return routed
        workers = routed.repartition(len(packed.labels), "label")
        return workers.mapInArrow(Worker(name, stage.operator, packed), ROUTED_SCHEMA)

    def _scaling(self) -> Scaling | None:
        if not self._stage.elastic:
            return None
        interval = self._trigger.get("processingTime")
        return Scaling(milliseconds(interval) / 1000 if interval else 0.0, self._stage.max_channels)

    def _checkpoint(self) -> str:
        spark = self._stage.events.sparkSession
        given = self._options.get("checkpointLocation") or spark.conf.get(
            "spark.sql.streaming.checkpointLocation", None
        )
        return CheckpointFiles(spark, given or tempfile.mkdtemp(prefix="unskew-")).root

    def _sink_options(self) -> dict[str, str]:
        return {key: value for key, value in self._options.items() if key != "checkpointLocation"}

    def _first_decision(self, log: ControlLog) -> Decision:
        """Return the decision for the first batch to run: a new one, or the last one again if it was not committed."""
        planned, committed = log.last_batches()
        if planned < 0:  # an earlier start may have written one, and ran no batch
            table = RoutingTable.initial(self._stage.channels, self._stage.slots)
            first = Decision(
                0,
                table,
                install=self._initial_state(log, table),
                previous_watermark_ms=0 if self._stage.operator.time_mode == "event" else None,
                memory_bytes=self._stage.memory_bytes,
            )
            log.write_decision(first)
            return first
        needed = planned if planned > committed else planned + 1
        decision = log.read_decision(needed)
        if decision is None:
            raise CheckpointError(
                f"the control log has no decision for batch {needed}",
                where=log.root,
                hint="this checkpoint was not written by a balanced query, or entries were removed; restore it or "
                "start with a new checkpointLocation",
            )
        return decision

    def _initial_state(self, log: ControlLog, table: RoutingTable) -> dict[int, tuple[str, ...]]:
        initial, operator = self._stage.initial_state, self._stage.operator
        if initial is None or not isinstance(operator, PerKeyFunction):
            return {}
        return write_initial_state(initial, operator, table, lambda channel, data: log.write_moved(0, channel, data))

    @contextmanager
    def _settings_of_the_query(self, partitions: int) -> Iterator[None]:
        """Set what the query needs while it starts: it keeps a copy of the session's settings."""
        conf = self._stage.events.sparkSession.conf
        wanted = {
            "spark.sql.shuffle.partitions": str(partitions),
            "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
            **REQUIRED,
        }
        session: Any = self._stage.events.sparkSession._jsparkSession
        chosen = session.sessionState().conf().settings()
        if not chosen.containsKey(BYTES_PER_BATCH):
            wanted[BYTES_PER_BATCH] = NO_LIMIT
        before = {name: conf.get(name) if chosen.containsKey(name) else None for name in wanted}
        for name, value in wanted.items():
            conf.set(name, value)
        try:
            yield
        finally:
            for name, old in before.items():
                if old is None:
                    conf.unset(name)
                else:
                    conf.set(name, old)
