"""``writeStream`` of a balanced stream: the methods of Spark's `DataStreamWriter`."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from unskew.errors import ArgumentError
from unskew.operators import Operator
from unskew.operators.durations import microseconds
from unskew.runtime.engine import Engine
from unskew.runtime.jobs import Work
from unskew.runtime.log import RecordLog
from unskew.runtime.record import Identity
from unskew.runtime.settings import Settings
from unskew.spark.anchors import Anchors, on_cluster
from unskew.spark.callback import Callback
from unskew.spark.check import check_session
from unskew.spark.checkpoint import check_checkpoint
from unskew.spark.hadoop import HadoopFiles, checkpoint_files
from unskew.spark.initial_state import Watermarks
from unskew.spark.paths import qualified
from unskew.spark.query import BalancedQuery
from unskew.spark.served import served
from unskew.spark.sinks import FILE_FORMATS, Sink, make_sink, make_table_sink
from unskew.spark.until_quiet import start_with_tick
from unskew.state.files import Files
from unskew.versions import PARTITIONS_BY_ID

if TYPE_CHECKING:
    from unskew.spark.batch.stream import BatchStage
    from unskew.spark.stage import Stage

OWN_FOLDER = "unskew"
REPLACE_YOURSELF = 'outputMode("update"), or replace what is there in foreachBatch'


class BalancedWriter:
    """Collects how a balanced stream is written, then starts it.

    ``balanced.writeStream.option("checkpointLocation", path).foreachBatch(write).start()``
    """

    def __init__(self, stage: Stage | BatchStage) -> None:
        self._stage: Any = stage
        self._options: dict[str, str] = {}
        self._trigger: dict[str, Any] = {}
        self._format: str | None = None
        self._function: Sink | None = None
        self._name: str | None = None
        self._partition_by: tuple[str, ...] = ()

    def outputMode(self, outputMode: str) -> Self:  # noqa: N802, N803
        """Set the output mode of aggregates. Other operators have one mode.

        ``"update"`` gives the rows that a batch has changed, the default for running aggregates. ``"append"``, the
        default for windows, gives a row once it is final. ``"complete"`` gives all rows in every batch.
        """
        mode, stage = str(outputMode).lower(), self._stage
        if stage.in_mode is not None:
            made = stage if mode == stage.output_mode else stage.in_mode(mode)
            self._stage = replace(made, in_mode=None, beginning=stage.beginning)
        elif mode != stage.output_mode:
            raise ArgumentError(
                f"the operator gives its rows in {stage.output_mode} mode",
                got=outputMode,
                hint=f'outputMode("{stage.output_mode}"), or none',
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

    def partitionBy(self, *cols: str | list[str]) -> Self:  # noqa: N802
        """Write a folder for each value of these columns."""
        self._partition_by = tuple(name for each in cols for name in (each if isinstance(each, list) else [each]))
        for name in self._partition_by:
            _require_text("partitionBy", name)
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
        """Write in a format; see `unskew.spark.sinks.make_sink`."""
        _require_text("format", source)
        self._format = source
        return self

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> Self:  # noqa: N802
        """Call ``func(rows, batch_id)`` for every batch. It may read the rows once, several times or not at all.

        After a failure it may be called again with the same rows and the same ``batch_id``.
        """
        if not callable(func):
            raise ArgumentError("this is not a function", where="foreachBatch", got=func)
        self._function = func
        return self

    def foreach(self, f: Any) -> Self:
        """Call ``f(row)`` for every row, or ``f.open``, ``f.process`` and ``f.close`` as Spark does."""
        if not callable(f) and not hasattr(f, "process"):
            raise ArgumentError("this is neither a function nor an object with process(row)", where="foreach", got=f)
        return self.foreachBatch(partial(_for_each_row, f))

    def queryName(self, queryName: str) -> Self:  # noqa: N802, N803
        """Name the query."""
        self._name = queryName
        return self

    def toTable(self, tableName: str, **options: Any) -> BalancedQuery:  # noqa: N802, N803
        """Start the query and append its rows to a table of the catalog; see `unskew.spark.sinks.make_table_sink`."""
        self.options(**options)
        _require_text("toTable", tableName)
        if self._stage.output_mode == "complete":
            raise ArgumentError("a table is appended to, and complete mode would replace it", hint=REPLACE_YOURSELF)
        spark, given = self._stage.events.sparkSession, self._sink_options()
        return self._start(partial(make_table_sink, spark, tableName, self._format, given, self._partition_by))

    def start(self, path: str | None = None, **options: Any) -> BalancedQuery:
        """Start the query, or continue it from its checkpoint."""
        self.options(**options)
        if path is not None:
            self.option("path", path)
        if self._function is not None:
            function = self._function
            return self._start(lambda identity, schema: function)
        spark, kind = self._stage.events.sparkSession, self._format or "parquet"
        whole = self._stage.output_mode == "complete"
        if whole and kind.lower() in (*FILE_FORMATS, "delta"):
            raise ArgumentError(f"a {kind} sink has no complete mode", hint=REPLACE_YOURSELF)
        make = partial(make_sink, query_name=self._name, whole=whole)
        return self._start(partial(make, spark, kind, self._sink_options(), self._partition_by))

    def _start(self, sink_of: Callable[..., Sink]) -> BalancedQuery:
        if self._stage.in_mode is not None:
            self.outputMode(self._stage.default_mode)
        stage = self._stage
        spark, operator = stage.events.sparkSession, stage.operator
        check_session(spark)
        settings = self._settings()
        checkpoint = checkpoint_files(spark, qualified(spark, self._checkpoint()))
        log = RecordLog(checkpoint.child(OWN_FOLDER))
        identity = Identity(tuple(operator.key), repr(operator), settings.channels.slots, uuid.uuid4().hex)
        name = check_checkpoint(checkpoint, log, identity, operator)
        sink = sink_of(identity=name, schema=stage.output_schema)
        log.files.probe()
        ticking = operator.deadline is not None and operator.time_mode != "none"
        initial = None
        beginning = stage.beginning
        if beginning is not None:
            # a view, since the callback may run in another process; it stays, as nothing says when Spark has copied it
            view = f"unskew_initial_{uuid.uuid4().hex}"
            beginning.rows.createOrReplaceTempView(view)
            initial = partial(_initial, beginning.parcels, view, operator)
        reached = Watermarks() if beginning is None else beginning.watermarks
        engine = Engine(operator, settings, log, name, stage.shuffled, watermarks_ms=(reached.last_ms, reached.next_ms))
        anchors = Anchors() if PARTITIONS_BY_ID and on_cluster(spark) else None
        callback = Callback(
            engine, checkpoint, sink, stage.key, stage.cores, stage.output_schema, ticking, initial, anchors
        )

        def start(events: DataFrame) -> StreamingQuery:
            return self._started(
                events.writeStream.option("checkpointLocation", checkpoint.root).foreachBatch(callback)
            )

        if ticking:
            mode: Any = operator.time_mode
            places, to_the_end = (_for_tick(log.files), _for_tick(checkpoint)), bool(self._trigger.get("availableNow"))
            query = start_with_tick(start, stage.events, *places, mode, to_the_end)
        else:
            query = start(stage.events)
        return BalancedQuery(query, log, settings, spark)

    def _started(self, writer: DataStreamWriter) -> StreamingQuery:
        if self._trigger:
            writer = writer.trigger(**self._trigger)
        if self._name:
            writer = writer.queryName(self._name)
        return writer.start()

    def _settings(self) -> Settings:
        settings: Settings = self._stage.settings
        if not settings.channels.auto:
            return settings
        interval = self._trigger.get("processingTime")
        if not interval:
            raise ArgumentError(
                'channels="auto" needs a trigger with an interval', hint='call trigger(processingTime="10 seconds")'
            )
        return replace(settings, channels=replace(settings.channels, trigger_seconds=microseconds(interval) / 1e6))

    def _checkpoint(self) -> str:
        conf = self._stage.events.sparkSession.conf
        given = self._options.get("checkpointLocation") or conf.get("spark.sql.streaming.checkpointLocation", None)
        return given or tempfile.mkdtemp(prefix="unskew-")

    def _sink_options(self) -> dict[str, str]:
        return {key: value for key, value in self._options.items() if key != "checkpointLocation"}


def _require_text(where: str, given: object) -> None:
    if not isinstance(given, str) or not given:
        raise ArgumentError("this must be text, and not empty", where=where, got=given, hint="give it as text")


def _for_tick(files: Files) -> str:
    """Return where the tick, a process of its own, finds files."""
    return served(files.root, files) if isinstance(files, HadoopFiles) else files.root


def _initial(
    make: Callable[[DataFrame, Operator, Work], DataFrame],
    view: str,
    operator: Operator,
    spark: SparkSession,
    work: Work,
) -> DataFrame:
    return make(spark.table(view), operator, work)


def _for_each_row(each: Any, rows: DataFrame, batch_id: int) -> None:
    if callable(each):
        rows.foreach(each)
    else:
        rows.foreachPartition(partial(_in_turn, each, batch_id))


def _in_turn(each: Any, batch_id: int, rows: Any) -> None:
    """Open, process and close as Spark's own ``foreach`` does."""
    context, error = TaskContext.get(), None
    number = 0 if context is None else context.partitionId()
    wanted = each.open(number, batch_id) if hasattr(each, "open") else True
    try:
        for row in rows if wanted else ():
            each.process(row)
    except Exception as failure:
        error = failure
        raise
    finally:
        if hasattr(each, "close"):
            each.close(error)
