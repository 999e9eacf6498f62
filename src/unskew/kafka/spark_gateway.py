"""The gateway as a Spark pipeline: any stream in, Kafka out, hot keys spread over the partitions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, get_args

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from unskew.errors import ArgumentError, ColumnError, SessionError, require_number
from unskew.kafka.control import SETTINGS
from unskew.kafka.decision import GatewayDecision
from unskew.kafka.decision_log import DecisionLog
from unskew.kafka.planning import Decider, Window
from unskew.kafka.spark_kafka import Admin, TopicWriter, client_settings, ensure_connector
from unskew.kafka.spark_rows import SEEN, RowQuery, Stamp
from unskew.planners import Planner
from unskew.planners import planner as named
from unskew.planners.report import Report
from unskew.spark.paths import qualified
from unskew.spark.plans import has_shuffle
from unskew.state.files import Files

ROWS_COUNTED = 50_000  # about how many rows of a batch are counted for keys without a route
WAIT_SECONDS = 600.0

# Signs that a query was stopped in the middle of a batch, and the words for it that Spark looks for (its pattern
# overflows on longer messages).
_STOPPED = (
    "java.lang.InterruptedException",
    "SPARK_JOB_CANCELLED",
    "cancelled part of cancelled job group",
    "was cancelled",
)
_STOPPED_IN_SPARKS_WORDS = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling write.\n: java.lang.InterruptedException"
)
# Tasks send all they have at once, so waiting for a batch of messages to fill does not delay them. Kafka's default,
# 16 KiB at once, makes broker and producer work twice as long.
LARGE_BATCHES = {"kafka.linger.ms": "20", "kafka.batch.size": str(128 << 10)}
_OPTIONS = {
    **LARGE_BATCHES,
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    # Never give up a message while later ones get through: written again, it would pass for a duplicate.
    "kafka.delivery.timeout.ms": str(2**31 - 1),
    "kafka.max.block.ms": "600000",
}


class Gateway:
    """Writes a stream to a Kafka topic, each key to one partition, and moves hot keys off overloaded partitions.

    A key goes where Kafka's own partitioner sends it unless it has a route. Every `interval_seconds` the planner looks
    at the messages per key since the last plan and may give keys new routes. When a key changes partition, markers end
    its message set in the old one and begin the next in the new one. `unskew.kafka.OrderedConsumer` puts the sets back
    in order; any other consumer sees a few messages without a value.

    The checkpoint keeps how a batch is routed and numbered before anything of it is written. A batch that is written
    again after a crash goes where it went before, with the same sequence numbers, and consumers drop duplicates.
    One task writes to a partition, in the order of the source.

    While the broker is away, the query waits up to ten minutes. If the broker rejects a message for good, or writing
    fails in another way, the query fails and the batch is written again with new numbers: messages that got through
    come twice, and none is lost.

    Costs a look-up per row, and a shuffle by partition unless `keyed_source`.

    Parameters
    ----------
    events
        The stream.
    key
        Column with the key: text, binary, or anything that can be cast to text.
    topic
        Where to write. It must exist, unless you give `partitions`.
    options
        Spark's options for Kafka, passed through: ``kafka.bootstrap.servers``, security, the producer's settings. By
        default all replicas acknowledge, and messages go in batches of 128 KiB, which wait 20 ms to fill.
    value
        Column with the value; by default the column ``value`` if there is one, else all columns as JSON.
    planner
        A planner that moves keys, or its name.
    interval_seconds
        Time between two plans.
    partitions
        Create the topic with so many partitions if it does not exist.
    stamp
        Which rows carry a sequence number, by which consumers recognise duplicates: ``"moved"`` (keys that have
        moved), ``"all"`` or ``"none"``. Defaults to ``"moved"``, or to ``"none"`` if the stream's order changes from
        run to run, as after a shuffle without `order_by`. Markers always carry one. Order does not depend on it. Rows
        without a number come twice if their batch is written again after a crash.
    keyed_source
        A promise that within a batch all rows of a key come from one partition of the source, as from a Kafka topic
        that was written with the same key. Then no shuffle is needed.
    order_by
        Columns that order a key's rows, if the source's own order does not. No two rows of a key should agree in them.
    share
        ``(i, n)``: this is the i-th of n gateways that share the keys; each counts and plans for its own.
    wait_for
        Groups of consumers that must have read everything before the first batch of a new checkpoint. For a topic on
        which an earlier gateway wrote whose checkpoint is lost.
    consumers
        Group of ordered consumers. The planner learns their lag and their measured cost of messages and hand-overs at
        every plan, for a rule such as ``planner("smalops", rule="backlog")``.
    control_topic
        Where consumers hand keys over; ``<topic>.control`` by default. Created if it does not exist.

    Examples
    --------
    This takes a broker, so it does not run here::

        query = unskew.kafka.gateway(
            events, key="user", topic="clicks", options={"kafka.bootstrap.servers": "127.0.0.1:9092"}
        ).start("/checkpoints/clicks", trigger={"processingTime": "1 second"})

    References
    ----------
    Bhattacharya and Wood, SMALOPS: the gateway in front of the broker.
    """

    def __init__(
        self,
        events: DataFrame,
        *,
        key: str,
        topic: str,
        options: Mapping[str, str],
        value: str | None = None,
        planner: str | Planner = "smalops",
        interval_seconds: float = 10.0,
        partitions: int | None = None,
        stamp: Stamp | None = None,
        keyed_source: bool = False,
        order_by: tuple[str, ...] | str = (),
        share: tuple[int, int] = (0, 1),
        wait_for: tuple[str, ...] | str = (),
        consumers: str | None = None,
        control_topic: str | None = None,
    ) -> None:
        self.settings = client_settings(options)
        self.options = {**_OPTIONS, **options}
        if stamp is not None and stamp not in get_args(Stamp):
            raise ArgumentError("stamp must be 'none', 'moved' or 'all'", got=stamp)
        if not 0 <= share[0] < share[1]:
            raise ArgumentError("share must be (i, n) with 0 <= i < n", got=share)
        require_number("interval_seconds", interval_seconds, 0, whole=False)
        if partitions is not None:
            require_number("partitions", partitions, 1, 2**31 - 1)
        self.order_by = (order_by,) if isinstance(order_by, str) else tuple(order_by)
        if keyed_source and self.order_by:
            raise ArgumentError("keyed_source and order_by exclude each other", hint="leave one of them out")
        for name in (key, *([value] if value else []), *self.order_by):
            if name not in events.columns:
                raise ColumnError("there is no such column", got=name, hint=f"one of {', '.join(events.columns)}")
        self.events, self.key, self.value, self.topic = events, key, value, topic
        repeatable = bool(self.order_by) or not has_shuffle(events)
        if stamp not in {None, "none"} and not repeatable:
            raise ArgumentError(
                "rows cannot be numbered if their order changes when they are read again",
                where="stamp",
                got=stamp,
                hint="give order_by, avoid the shuffle, or use stamp='none'",
            )
        self.stamp: Stamp = stamp or ("moved" if repeatable else "none")
        self.keyed_source, self.share = keyed_source, share
        self.wait_for = (wait_for,) if isinstance(wait_for, str) else tuple(wait_for)
        self.consumers = consumers
        self.control_topic = control_topic or f"{topic}.control"
        self.decider = Decider(named(planner) if isinstance(planner, str) else planner, interval_seconds)
        self.lane = "" if share[1] == 1 else str(share[0])
        self.decision: GatewayDecision | None = None
        self.report: Report | None = None
        self.batches = self.rows = self.moves = 0
        self._wanted_partitions = partitions
        self._has_decided = False
        self._count_every = 1
        self._window = Window()
        self._query: tuple[tuple[int, int, int], RowQuery] | None = None  # with the routes it is for

    def start(
        self, checkpoint: str, *, trigger: Mapping[str, Any] | None = None, name: str | None = None
    ) -> StreamingQuery:
        """Start the query; `trigger` holds the arguments of ``DataStreamWriter.trigger``."""
        self.open(self.events.sparkSession, checkpoint)
        writer = self.events.writeStream.foreachBatch(self.write).option("checkpointLocation", checkpoint)
        if trigger:
            writer = writer.trigger(**trigger)
        return (writer.queryName(name) if name else writer).start()

    def open(self, spark: SparkSession, checkpoint: str) -> None:
        """Find the topic and the log in the checkpoint. `start` does this; call it before `write`."""
        self._spark = spark
        ensure_connector(spark)
        self._find_topic(spark)
        self._log = DecisionLog(Files(qualified(spark, checkpoint)))
        index, count = self.share
        self._log.identify({"topic": self.topic, "partitions": self.partitions, "gateway": [index, count]})
        if self._log.last_planned() < 0:
            self._wait(spark)

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Decide for a batch and write it, markers first; for ``foreachBatch``."""
        try:
            self._write(batch, batch_id)
        except Exception as error:
            if _was_stopped(error):
                raise RuntimeError(_STOPPED_IN_SPARKS_WORDS) from None
            raise

    def write_batch(self, rows: DataFrame, decision: GatewayDecision) -> dict[str, Any]:
        """Write rows as a decision says; return the counts."""
        return self._writer.write(self._query_of(decision).of(rows, decision.block + 1))[SEEN]

    def _wait(self, spark: SparkSession) -> None:
        admin, end = Admin(spark, self.settings), time.monotonic() + WAIT_SECONDS
        while behind := [group for group in self.wait_for if admin.lag(group, self.topic) > 0]:
            if time.monotonic() > end:
                raise SessionError(
                    f"group {behind[0]!r} has not read everything within {WAIT_SECONDS:.0f} s",
                    where=self.topic,
                    hint="start its consumers, or use the earlier checkpoint",
                )
            time.sleep(1)

    def _find_topic(self, spark: SparkSession) -> None:
        admin = Admin(spark, self.settings)
        found = admin.partitions(self.topic)
        if found is not None and "compact" in (admin.setting(self.topic, "cleanup.policy") or ""):
            raise ArgumentError(
                "a compacted topic would keep a marker as the last message of a key that has moved away",
                where=self.topic,
                got="cleanup.policy=compact",
                hint="write to a topic that deletes by time, and compact downstream",
            )
        if found is None:
            if self._wanted_partitions is None:
                raise ArgumentError("there is no such topic", got=self.topic, hint="create it, or give partitions")
            admin.create(self.topic, self._wanted_partitions)
            found = self._wanted_partitions
        self.partitions = found
        if admin.partitions(self.control_topic) is None:
            admin.create(self.control_topic, found, SETTINGS)

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        now_ms = int(time.time() * 1000)
        decision, again = self._decide(batch_id, now_ms)
        if again and decision.parallelism != self._parallelism:
            decision = replace(decision.renumbered(now_ms), parallelism=self._parallelism)
            self._log.overrule(batch_id, decision.to_bytes())
        self.decision = decision
        try:
            if decision.markers:
                self._write_markers(batch.sparkSession, decision)
            seen = self.write_batch(batch, decision)
        except Py4JJavaError as error:
            if not _was_stopped(error):  # the broker may have rejected rows and taken later ones
                self._log.overrule(batch_id, decision.renumbered(now_ms).to_bytes())
            raise
        rows = int(seen["rows"])
        routed, others = self._query_of(decision).counted(seen)
        self._count_every = sampling(rows, self._count_every)
        self._window.add(rows, routed | others)
        self.decision = decision.counted(routed)
        self.batches += 1
        self.rows += rows
        self.moves += len(decision.markers) // 2
        self._log.forget_before(batch_id)

    def _decide(self, batch_id: int, now_ms: int) -> tuple[GatewayDecision, bool]:
        """Return the decision for a batch, and whether it had been made before, by a process that died."""
        last = self.decision
        if last is None and batch_id > 0:
            last = self._logged(batch_id - 1).counted(None)
        if last is None:
            decision = GatewayDecision.cold(self.partitions, now_ms=now_ms, batch_id=batch_id, lane=self.lane)
        else:
            decision = last.following(batch_id, restarted_at_ms=None if self._has_decided else now_ms)
        decision, report = self._plan(replace(decision, parallelism=self._parallelism), now_ms)
        if not self._log.write(batch_id, decision.to_bytes()):
            return self._logged(batch_id), True
        self._has_decided = True
        self.report = report or self.report
        return decision, False

    def _plan(self, decision: GatewayDecision, now_ms: int) -> tuple[GatewayDecision, Report | None]:
        use = None
        if self.consumers is not None and self.decider.due(decision, self._window, now_ms):
            try:
                use = Admin(self._spark, self.settings).use(self.consumers, self.topic)
            except SessionError:  # the broker is away: the query waits for it, and plans a batch later
                return decision, None
        return self.decider.decide(decision, self._window, now_ms, use)

    def _logged(self, batch_id: int) -> GatewayDecision:
        return GatewayDecision.from_bytes(self._log.read(batch_id))

    @property
    def _parallelism(self) -> int:
        return self._spark.sparkContext.defaultParallelism

    def _write_markers(self, spark: SparkSession, decision: GatewayDecision) -> None:
        columns = {
            "key": pa.array([marker.key for marker in decision.markers], pa.binary()),
            "partition": pa.array([marker.partition for marker in decision.markers], pa.int32()),
            "headers": pa.array(
                [[{"key": n, "value": v} for n, v in marker.mark.headers()] for marker in decision.markers],
                pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
            ),
        }
        markers = spark.createDataFrame(pa.table(columns)).coalesce(1)
        nothing = sql.lit(None).cast("binary").alias("value")
        self._writer.write(markers.select("key", nothing, "partition", "headers"))

    @cached_property
    def _writer(self) -> TopicWriter:
        return TopicWriter(self.events.sparkSession, self.options, self.topic)

    def _query_of(self, decision: GatewayDecision) -> RowQuery:
        """Return the query for a decision: the last one unless routes, or how many rows are counted, have changed."""
        known = (decision.generation, decision.epoch, self._count_every)
        if self._query is None or self._query[0] != known:
            self._query = known, RowQuery(self, decision.routes, self._count_every)
        return self._query[1]


def gateway(events: DataFrame, *, key: str, topic: str, options: Mapping[str, str], **parameters: Any) -> Gateway:
    """Return a gateway for a stream; see `Gateway` for all parameters. Its `start` starts the query."""
    return Gateway(events, key=key, topic=topic, options=options, **parameters)


def sampling(rows: int, now: int) -> int:
    """Return k such that counting one of k rows of such a batch counts enough; `now` as long as that is good enough.

    >>> sampling(1_000_000, 1), sampling(500_000, 20), sampling(60_000, 20)
    (20, 20, 1)
    """
    return now if ROWS_COUNTED // 4 <= rows // now <= 4 * ROWS_COUNTED else max(1, rows // ROWS_COUNTED)


def _was_stopped(error: Exception) -> bool:
    return any(sign in str(error) for sign in _STOPPED)
