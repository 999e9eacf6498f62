"""Spark's Kafka connector, found or fetched, and what Spark alone cannot do with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from unskew.errors import ArgumentError, SessionError
from unskew.kafka.costs import ConsumerCosts, GroupUse
from unskew.kafka.jars import connector_jars
from unskew.kafka.lookup import RouteTable

_PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
ADMIN_SECONDS = 30
PIECE = 4_000


def ensure_connector(spark: SparkSession) -> None:
    """Make sure that ``format("kafka")`` works in this session: fetch the connector and add it where it is missing.

    Sessions started with ``spark.jars.packages`` have it already. Added to a running session, it serves the thread
    that calls this, and the queries that this thread starts.
    """
    if not _has_class(spark, _PROVIDER):
        for jar in connector_jars():
            spark.sql(f"ADD JAR '{jar}'")


def murmur2(spark: SparkSession, key: Column) -> Column:
    """Return Kafka's own hash of a binary column, computed by Kafka's own class inside the query."""
    jvm: Any = spark._jvm
    expressions = jvm.org.apache.spark.sql.classic.ExpressionUtils
    arguments = jvm.PythonUtils.toSeq([expressions.expression(key._jc)])
    call = jvm.org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke(
        _class(spark, "org.apache.kafka.common.utils.Utils"),
        jvm.org.apache.spark.sql.types.DataTypes.IntegerType,
        "murmur2",
        arguments,
        jvm.PythonUtils.toSeq([]),
        True,
        False,
        True,
        jvm.scala.Option.empty(),
    )
    from pyspark.sql.classic.column import Column as ClassicColumn  # noqa: PLC0415 (absent from Connect's package)

    return ClassicColumn(expressions.column(call))


def constant(table: RouteTable, column: str) -> Column:
    """Return a column of a table of routes, as one constant of the query; Spark reads it once, when it plans."""
    return sql.from_json(sql.lit(table.columns[column]), table.TYPES[column])


def place_of(key: Column, table: RouteTable) -> Column:
    """Return the only place in a table of routes where a binary key may be."""
    hashed = sql.xxhash64(key)
    shift = sql.get(constant(table, "shifts"), hashed.bitwiseAND(table.buckets - 1).cast("int"))
    return sql.call_function("shiftrightunsigned", hashed, shift).bitwiseAND(len(table.keys) - 1).cast("int")


class TopicWriter:
    """Writes rows as ``rows.write.format("kafka").save()`` does, and returns what ``rows.observe`` counted on the way.

    Spark's own call runs a copy of the query and keeps what was observed to itself. What is observed is one column of
    JSON: Java gives a thousand counts as text in a millisecond, and one by one, or in one piece, in fifty.

    Parameters
    ----------
    spark
        The session.
    options
        Spark's options for Kafka.
    topic
        Where to write.
    """

    def __init__(self, spark: SparkSession, options: Mapping[str, str], topic: str) -> None:
        jvm: Any = spark._jvm
        java_options = jvm.java.util.HashMap()
        for name, value in options.items():
            java_options.put(name, value)
        insensitive = _object(spark, "org.apache.spark.sql.catalyst.util.CaseInsensitiveMap")
        provider = _object(spark, "org.apache.spark.sql.kafka010.KafkaSourceProvider")
        scala_options = insensitive.apply(jvm.PythonUtils.toScalaMap(java_options))
        self._settings, self._topic = provider.kafkaParamsForProducer(scala_options), jvm.scala.Some(topic)
        self._writer = _object(spark, "org.apache.spark.sql.kafka010.KafkaWriter")
        self._as_java = jvm.scala.jdk.javaapi.CollectionConverters.asJava
        self._new_text = jvm.java.lang.StringBuilder

    def write(self, rows: DataFrame) -> dict[str, dict[str, Any]]:
        """Write; return for each name under which something was observed what it was."""
        execution = rows._jdf.queryExecution()
        self._writer.write(execution, self._settings, self._topic)
        observed = self._as_java(execution.observedMetrics())
        found: dict[str, dict[str, Any]] = {}
        for name in observed:
            (found[name],) = json.loads(self._text(observed[name]))
        return found

    def _text(self, thing: Any) -> str:
        """Return an object of Java's as text; a row of one column is that column in brackets.

        In pieces: whoever asks Java for more than its buffer of 8 KiB in one answer waits 40 ms, until the system
        acknowledges the first part of it.
        """
        text = self._new_text()
        text.append(thing)
        end = text.length()
        return "".join(text.substring(at, min(at + PIECE, end)) for at in range(0, end, PIECE))


@dataclass(frozen=True)
class Admin:
    """Kafka's administration client inside Spark's Java: no other Kafka client is needed.

    Parameters
    ----------
    spark
        The session.
    settings
        The client's settings: ``bootstrap.servers`` and whatever security asks for.
    """

    spark: SparkSession
    settings: Mapping[str, str]

    def partitions(self, topic: str) -> int | None:
        """Return how many partitions a topic has, None if there is no such topic."""
        with _Client(self) as client:
            names = client.listTopics().names().get(ADMIN_SECONDS, self._seconds)
            if topic not in names:
                return None
            described = client.describeTopics([topic]).allTopicNames().get(ADMIN_SECONDS, self._seconds)
            return int(described[topic].partitions().size())

    def setting(self, topic: str, name: str) -> str | None:
        """Return a setting of a topic; None if we may not see it."""
        jvm: Any = self.spark._jvm
        resource = _class(self.spark, "org.apache.kafka.common.config.ConfigResource")
        kind = _class(self.spark, "org.apache.kafka.common.config.ConfigResource$Type")
        make = resource.getConstructor(_array(self.spark, [kind, jvm.java.lang.Class.forName("java.lang.String")]))
        of_topic = make.newInstance(_array(self.spark, [kind.getField("TOPIC").get(None), topic], True))
        with _Client(self) as client:
            try:
                found = client.describeConfigs([of_topic]).all().get(ADMIN_SECONDS, self._seconds)
            except Py4JJavaError as error:
                if "AuthorizationException" in str(error.java_exception):
                    return None
                raise
            entry = found[of_topic].get(name)
            return None if entry is None else str(entry.value())

    def create(self, topic: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        """Create a topic with the broker's own replication factor; does nothing if it is there."""
        jvm: Any = self.spark._jvm
        optional = jvm.java.util.Optional
        kinds = [
            jvm.java.lang.Class.forName(n) for n in ("java.lang.String", "java.util.Optional", "java.util.Optional")
        ]
        make = _class(self.spark, "org.apache.kafka.clients.admin.NewTopic").getConstructor(_array(self.spark, kinds))
        new = make.newInstance(
            _array(self.spark, [topic, optional.of(jvm.java.lang.Integer.valueOf(partitions)), optional.empty()], True)
        )
        with _Client(self) as client:
            try:
                client.createTopics([new.configs(dict(settings or {}))]).all().get(ADMIN_SECONDS, self._seconds)
            except Py4JJavaError as error:
                if "TopicExistsException" not in str(error.java_exception):
                    raise

    def lag(self, group: str, topic: str) -> int:
        """Return how many messages of a topic a group has not committed yet."""
        return sum(self.use(group, topic).lags)

    def messages(self, topic: str) -> int:
        """Return how many messages were ever written to a topic; 0 if there is no such topic."""
        with _Client(self) as client:
            return sum(int(end.offset()) for end in self._ends(client, self._places(topic)).values())

    def is_whole(self, topic: str) -> bool:
        """Tell whether a topic still has its first messages, in each partition; one that is not there yet will."""
        with _Client(self) as client:
            return all(end.offset() == 0 for end in self._ends(client, self._places(topic), "earliest").values())

    def use(self, group: str, topic: str) -> GroupUse:
        """Return how many messages of each partition a group has not committed yet, and what its members measured."""
        places = self._places(topic)
        with _Client(self) as client:
            ends = self._ends(client, places)
            committed = client.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()
            known = committed.get(ADMIN_SECONDS, self._seconds)
            found = [known.get(each) for each in places]
            lags = [
                int(ends.get(each).offset()) - (0 if at is None else int(at.offset()))
                for each, at in zip(places, found, strict=True)
            ]
            costs = ConsumerCosts.sum({str(at.metadata()) for at in found if at is not None})
            return GroupUse(tuple(lags), costs)

    def _places(self, topic: str) -> list[Any]:
        """Return the topic's partitions, in order."""
        jvm: Any = self.spark._jvm
        kinds = [jvm.java.lang.Class.forName("java.lang.String"), jvm.java.lang.Integer.TYPE]
        place = _class(self.spark, "org.apache.kafka.common.TopicPartition").getConstructor(_array(self.spark, kinds))
        count = self.partitions(topic) or 0
        return [place.newInstance(_array(self.spark, [topic, partition], True)) for partition in range(count)]

    def _ends(self, client: Any, places: list[Any], which: str = "latest") -> Any:
        """Return where each of some partitions ends, or begins if `which` is earliest."""
        jvm: Any = self.spark._jvm
        spec = _class(self.spark, "org.apache.kafka.clients.admin.OffsetSpec")
        wanted = spec.getMethod(which, _array(self.spark, [])).invoke(None, _array(self.spark, [], True))
        asked = jvm.java.util.HashMap()
        for each in places:
            asked.put(each, wanted)
        return client.listOffsets(asked).all().get(ADMIN_SECONDS, self._seconds)

    @property
    def _seconds(self) -> Any:
        jvm: Any = self.spark._jvm
        return jvm.java.util.concurrent.TimeUnit.SECONDS


class _Client:
    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    def __enter__(self) -> Any:
        spark = self._admin.spark
        jvm: Any = spark._jvm
        kind = jvm.java.lang.Class.forName("java.util.Properties")
        properties = jvm.java.util.Properties()
        for name, value in self._admin.settings.items():
            properties.setProperty(name, value)
        create = _class(spark, "org.apache.kafka.clients.admin.Admin").getMethod("create", _array(spark, [kind]))
        self._client = create.invoke(None, _array(spark, [properties], True))
        return self._client

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._client.close()
        if isinstance(error, Py4JJavaError):
            cause = error.java_exception
            raise SessionError(
                f"Kafka does not do as it is told: {cause.getMessage()}",
                where=self._admin.settings.get("bootstrap.servers"),
                hint="is the broker running, and are the security settings right",
            ) from None


def client_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the client's settings among Spark's options, which begin with ``kafka.``.

    >>> client_settings({"kafka.bootstrap.servers": "127.0.0.1:9092", "includeHeaders": "true"})
    {'bootstrap.servers': '127.0.0.1:9092'}
    """
    found = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    if "bootstrap.servers" not in found:
        raise ArgumentError("which broker", where="options", hint="give kafka.bootstrap.servers")
    return found


def _loader(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


def _class(spark: SparkSession, name: str) -> Any:
    return _loader(spark).loadClass(name)


def _object(spark: SparkSession, name: str) -> Any:
    """Return a Scala object by the name of its class."""
    return _class(spark, f"{name}$").getField("MODULE$").get(None)


def _has_class(spark: SparkSession, name: str) -> bool:
    try:
        _class(spark, name)
    except Py4JJavaError:
        return False
    return True


def _array(spark: SparkSession, items: list[Any], objects: bool = False) -> Any:
    gateway: Any = spark.sparkContext._gateway
    jvm: Any = spark._jvm
    array = gateway.new_array(jvm.java.lang.Object if objects else jvm.java.lang.Class, len(items))
    for at, item in enumerate(items):
        array[at] = item
    return array
