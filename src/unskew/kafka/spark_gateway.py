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

from unskew.errors import ArgumentError, ColumnError, SessionError
from unskew.kafka.control import SETTINGS
from unskew.kafka.decision import GatewayDecision
from unskew.kafka.decision_log import DecisionLog
from unskew.kafka.lookup import RouteTable
from unskew.kafka.planning import Decider, Window
from unskew.kafka.spark_kafka import Admin, TopicWriter, client_settings, ensure_connector
from unskew.kafka.spark_rows import SEEN, RowQuery, Stamp
from unskew.planners import Planner, planner
from unskew.planners.report import Report
from unskew.spark.paths import qualified
from unskew.spark.plans import has_shuffle
from unskew.state.files import Files

ROWS_COUNTED = 50_000
"""How many rows of a batch are counted, about, for keys without a route."""

WAIT_SECONDS = 600.0

# A query that is stopped in the middle of a batch. Spark looks for these words, with a pattern that overflows on more.
_STOPPED = (
    "java.lang.InterruptedException",
    "SPARK_JOB_CANCELLED",
    "cancelled part of cancelled job group",
    "was cancelled",
)
_STOPPED_IN_SPARKS_WORDS = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling write.\n: java.lang.InterruptedException"
)
# Tasks send all they have at once: what a batch of messages waits to fill, a task does not. By itself Kafka sends
# 16 KiB as soon as they are there, and broker and producer work twice as long.
LARGE_BATCHES = {"kafka.linger.ms": "20", "kafka.batch.size": str(128 << 10)}
_OPTIONS = {
    **LARGE_BATCHES,
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    # Never give a message up while the next one still gets through: written again, it would pass for a duplicate.
    "kafka.delivery.timeout.ms": str(2**31 - 1),
    "kafka.max.block.ms": "600000",
}


class Gateway:
    """Writes a stream to a Kafka topic, each key to one partition, and moves hot keys off overloaded partitions.

    A key goes where Kafka's own partitioner sends it unless it has a route. Every `interval_seconds` the planner looks
    at the messages per key of the time since and gives keys other routes. Where a key changes partition, markers end
    its message set in the old one and begin the next in the new one; `unskew.kafka.OrderedConsumer` puts both together
    again, any other consumer sees a few messages without a value.

    Routes, epoch and generation of a batch are kept in the checkpoint before anything of the batch is written: a batch
    that is written again, after a crash, goes where it went before, with the same sequence numbers, and consumers drop
    what they have. Within a partition, one task writes, in the order of the source.

    While the broker is away, the query waits, for ten minutes at most before it sends more. If the broker refuses a
    message for good, the query fails, and the batch is written again with new numbers, since later messages may have
    got through: these come twice, and none is lost. A query that fails in another way while it writes does the same.

    Costs a look-up per row, and a shuffle by partition unless `keyed_source`.

    Parameters
    ----------
    events
        The stream.
    key
        Column with the key; text, binary, or anything that can be cast to text.
    topic
        Where to write. It must exist, unless `partitions` is given.
    options
        Spark's options for Kafka: ``kafka.bootstrap.servers``, security, the producer's settings. Passed through. By
        default all replicas acknowledge, and messages go in batches of 128 KiB, which wait 20 ms to fill.
    value
        Column with the value; by default the column named ``value``, else all columns as JSON.
    planner
        Who plans, by name or made; one that moves keys.
    interval_seconds
        Time between two plans.
    partitions
        Create the topic with so many partitions if it does not exist.
    stamp
        Which rows carry a sequence number, by which duplicates are known: those of keys that have moved, all, or none.
        By default those that have moved, or none if the stream's order changes from one run to the next, as above a
        shuffle without `order_by`. Markers always do. The first time that messages come, their order does not depend
        on it; a batch that is written again after a crash does, as with any other writer: without numbers its messages
        come twice.
    keyed_source
        A promise that within a batch all rows of a key come from one partition of the source, as from a Kafka topic
        that was written with the same key. Then no shuffle is needed.
    order_by
        Columns that say in which order a key's rows are, if it is not the order in which the source returns them. No
        two rows of a key should agree in them.
    share
        ``(i, n)``: this is the i-th of n gateways, which share the keys among them; each counts and plans for its own.
    wait_for
        Groups of consumers to wait for before the first batch of a new checkpoint: they must have read everything. For
        a topic on which an earlier gateway wrote whose checkpoint is lost.
    consumers
        Group of ordered consumers whose lag, and whose measured cost of messages and hand-overs, the planner is told
        at every plan; for a rule such as ``planner("smalops", rule="backlog")``.
    control_topic
        Where consumers talk to each other; ``<topic>.control`` by default. Created if it does not exist.

    Examples
    --------
    It takes a broker, so it is not run here::

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
            raise ArgumentError("stamp is none, moved or all", got=stamp)
        if not 0 <= share[0] < share[1]:
            raise ArgumentError("the share (i, n) of a gateway has 0 <= i < n", got=share)
        if not interval_seconds >= 0:
            raise ArgumentError("interval_seconds must not be negative", got=interval_seconds)
        self.order_by = (order_by,) if isinstance(order_by, str) else tuple(order_by)
        if keyed_source and self.order_by:
            raise ArgumentError("rows of a keyed source are not sorted", where="order_by", hint="leave one of them out")
        for name in (key, *([value] if value else []), *self.order_by):
            if name not in events.columns:
                raise ColumnError("there is no such column", got=name, hint=f"one of {', '.join(events.columns)}")
        self.events, self.key, self.value, self.topic = events, key, value, topic
        repeatable = bool(self.order_by) or not has_shuffle(events)
        if stamp not in {None, "none"} and not repeatable:
            raise ArgumentError(
                "rows that come in another order when they are read again cannot be numbered",
                where="stamp",
                got=stamp,
                hint="give order_by, leave the shuffle out, or take stamp='none'",
            )
        self.stamp: Stamp = stamp or ("moved" if repeatable else "none")
        self.keyed_source, self.share = keyed_source, share
        self.wait_for = (wait_for,) if isinstance(wait_for, str) else tuple(wait_for)
        self.consumers = consumers
        self.control_topic = control_topic or f"{topic}.control"
        self.decider = Decider(_planner(planner), interval_seconds)
        self.lane = "" if share[1] == 1 else str(share[0])
        self.decision: GatewayDecision | None = None
        self.report: Report | None = None
        self.batches = self.rows = self.moves = 0
        self._wanted_partitions = partitions
        self._has_decided = False
        self._count_every = 1
        self._window = Window()
        self._table: RouteTable | None = None
        self._query: tuple[tuple[int, int, int], RowQuery] | None = None

    def start(
        self, checkpoint: str, *, trigger: Mapping[str, Any] | None = None, name: str | None = None
    ) -> StreamingQuery:
        """Start the query; `trigger` as for ``DataStreamWriter.trigger``."""
        self.open(self.events.sparkSession, checkpoint)
        writer = self.events.writeStream.foreachBatch(self.write).option("checkpointLocation", checkpoint)
        if trigger:
            writer = writer.trigger(**trigger)
        return (writer.queryName(name) if name else writer).start()

    def open(self, spark: SparkSession, checkpoint: str) -> None:
        """Find the topic, and the log in the checkpoint; `start` does it, and whoever calls `write` by hand."""
        self._spark = spark
        ensure_connector(spark)
        self._find_topic(spark)
        self._log = DecisionLog(Files(qualified(spark, checkpoint)))
        index, count = self.share
        self._log.identify({"topic": self.topic, "partitions": self.partitions, "gateway": [index, count]})
        if self._log.last_batches()[0] < 0:
            self._wait(spark)

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Decide for a batch and write it, markers first; for ``foreachBatch``."""
        try:
            self._write(batch, batch_id)
        except Exception as error:
            if _was_stopped(error):
                raise RuntimeError(_STOPPED_IN_SPARKS_WORDS) from None
            raise

    def write_batch(self, rows: DataFrame, decision: GatewayDecision, block: int | None = None) -> dict[str, Any]:
        """Write rows as a decision says; return what was counted on the way."""
        block = decision.block + 1 if block is None else block
        return self._writer.write(self._query_of(decision).of(rows, block))[SEEN]

    def _wait(self, spark: SparkSession) -> None:
        admin, end = Admin(spark, self.settings), time.monotonic() + WAIT_SECONDS
        while behind := [group for group in self.wait_for if admin.lag(group, self.topic) > 0]:
            if time.monotonic() > end:
                raise SessionError(
                    f"group {behind[0]!r} has not read everything within {WAIT_SECONDS:.0f} s",
                    where=self.topic,
                    hint="start its consumers, or the checkpoint that was in use before",
                )
            time.sleep(1)

    def _find_topic(self, spark: SparkSession) -> None:
        admin = Admin(spark, self.settings)
        found = admin.partitions(self.topic)
        if found is not None and "compact" in (admin.setting(self.topic, "cleanup.policy") or ""):
            raise ArgumentError(
                "a compacted topic keeps a key's last message in each partition: a marker, where the key has left",
                where=self.topic,
                got="cleanup.policy=compact",
                hint="write to a topic that deletes by time, and compact behind it",
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
            if not _was_stopped(error):  # rows may have been refused, and later ones not
                self._log.overrule(batch_id, decision.renumbered(now_ms).to_bytes())
            raise
        keys = self._table.keys if self._table else ()
        routed = {key: count for item, count in _counts(seen.get("routed")) if (key := keys[item]) is not None}
        weight = self._count_every
        key_of = self._query_of(decision).key_of
        others = {key_of(item): weight * count for item, count in _counts(seen.get("others"))}
        self._count_every = sampling(int(seen["rows"]), self._count_every)
        self._window.add(int(seen["rows"]), routed | others)
        self.decision = decision.counted(routed)
        self.batches += 1
        self.rows += int(seen["rows"])
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
            except SessionError:  # a broker that is away: the query waits for it, and plans a batch later
                return decision, None
        return self.decider.decide(decision, self._window, now_ms, use)

    def _logged(self, batch_id: int) -> GatewayDecision:
        """Return the decision that rules for a batch of the past."""
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
        """Return the query for a decision: the last one unless routes, or the share that is counted, have changed."""
        known = (decision.generation, decision.epoch, self._count_every)
        if self._query is None or self._query[0] != known:
            self._table = RouteTable.of(decision.routes) if decision.routes else None
            query = RowQuery(
                self.events,
                key=self.key,
                value=self.value,
                order_by=self.order_by,
                partitions=self.partitions,
                stamp=self.stamp,
                keyed_source=self.keyed_source,
                share=self.share,
                lane=self.lane,
                table=self._table,
                count_every=self._count_every,
            )
            self._query = known, query
        return self._query[1]


def gateway(events: DataFrame, *, key: str, topic: str, options: Mapping[str, str], **parameters: Any) -> Gateway:
    """Return a gateway for a stream; see `Gateway` for all parameters. Its `start` starts the query."""
    return Gateway(events, key=key, topic=topic, options=options, **parameters)


def sampling(rows: int, now: int) -> int:
    """Return of how many rows one is counted, given a batch like those to come; what it is now as long as that will do.

    >>> sampling(1_000_000, 1), sampling(500_000, 20), sampling(60_000, 20)
    (20, 20, 1)
    """
    return now if ROWS_COUNTED // 4 <= rows // now <= 4 * ROWS_COUNTED else max(1, rows // ROWS_COUNTED)


def _planner(chosen: str | Planner) -> Planner:
    return planner(chosen) if isinstance(chosen, str) else chosen


def _was_stopped(error: Exception) -> bool:
    return any(sign in str(error) for sign in _STOPPED)


def _counts(top: list[Any] | None) -> list[tuple[Any, int]]:
    return [(each["item"], int(each["count"])) for each in top or [] if each.get("item") is not None]
