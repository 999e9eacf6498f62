"""Spark's Kafka connector, found or fetched, and what Spark alone cannot do with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    try:
        _class(spark, _PROVIDER)
    except Py4JJavaError:
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
    """Return a column of a table of routes as one constant of the query, which Spark reads once, when it plans."""
    return sql.from_json(sql.lit(table.columns[column]), table.TYPES[column])


def place_of(key: Column, table: RouteTable) -> Column:
    """Return the only place in a table of routes where a binary key may be."""
    hashed = sql.xxhash64(key)
    shift = sql.get(constant(table, "shifts"), hashed.bitwiseAND(table.buckets - 1).cast("int"))
    return sql.call_function("shiftrightunsigned", hashed, shift).bitwiseAND(len(table.keys) - 1).cast("int")


class TopicWriter:
    """Writes rows as ``rows.write.format("kafka").save()`` does, and returns what ``rows.observe`` counted.

    Spark's own call runs a copy of the query and keeps the counts to itself. The counts are one column of JSON: as
    text, a thousand of them leave Java in a millisecond instead of fifty.
    """

    def __init__(self, spark: SparkSession, options: Mapping[str, str], topic: str) -> None:
        jvm: Any = spark._jvm
        insensitive = _object(spark, "org.apache.spark.sql.catalyst.util.CaseInsensitiveMap")
        scala_options = insensitive.apply(jvm.PythonUtils.toScalaMap(_java_map(spark, options)))
        self._settings = _object(spark, _PROVIDER).kafkaParamsForProducer(scala_options)
        self._topic = jvm.scala.Some(topic)
        self._writer = _object(spark, "org.apache.spark.sql.kafka010.KafkaWriter")
        self._as_java = jvm.scala.jdk.javaapi.CollectionConverters.asJava
        self._new_text = jvm.java.lang.StringBuilder

    def write(self, rows: DataFrame) -> dict[str, dict[str, Any]]:
        """Write; return the counts by the name under which they were observed."""
        execution = rows._jdf.queryExecution()
        self._writer.write(execution, self._settings, self._topic)
        observed = self._as_java(execution.observedMetrics())
        found: dict[str, dict[str, Any]] = {}
        for name in observed:
            (found[name],) = json.loads(self._text(observed[name]))
        return found

    def _text(self, thing: Any) -> str:
        """Return a Java object as text; a row of one column is that column in brackets.

        It comes in pieces: an answer of more than Java's buffer of 8 KiB would wait 40 ms until the system
        acknowledges its first part.
        """
        text = self._new_text()
        text.append(thing)
        end = text.length()
        return "".join(text.substring(at, min(at + PIECE, end)) for at in range(0, end, PIECE))


@dataclass(frozen=True)
class Admin:
    """Kafka's administration client inside Spark's Java: no other Kafka client is needed."""

    spark: SparkSession
    settings: Mapping[str, str]  # of the client: bootstrap.servers, security

    def partitions(self, topic: str) -> int | None:
        """Return how many partitions a topic has, None if there is no such topic."""
        with self._client() as client:
            if topic not in self._get(client.listTopics().names()):
                return None
            return int(self._get(client.describeTopics([topic]).allTopicNames())[topic].partitions().size())

    def setting(self, topic: str, name: str) -> str | None:
        """Return a setting of a topic; None if we may not see it."""
        resource = "org.apache.kafka.common.config.ConfigResource"
        kind = _class(self.spark, f"{resource}$Type")
        of_topic = self._new(resource, [kind, "java.lang.String"], kind.getField("TOPIC").get(None), topic)
        with self._client() as client:
            try:
                found = self._get(client.describeConfigs([of_topic]).all())
            except Py4JJavaError as error:
                if "AuthorizationException" in str(error.java_exception):
                    return None
                raise
            entry = found[of_topic].get(name)
            return None if entry is None else str(entry.value())

    def create(self, topic: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        """Create a topic with the broker's own replication factor; does nothing if it exists."""
        jvm: Any = self.spark._jvm
        optional = jvm.java.util.Optional
        kinds = ["java.lang.String", "java.util.Optional", "java.util.Optional"]
        counts = optional.of(jvm.java.lang.Integer.valueOf(partitions)), optional.empty()
        new = self._new("org.apache.kafka.clients.admin.NewTopic", kinds, topic, *counts)
        with self._client() as client:
            try:
                self._get(client.createTopics([new.configs(dict(settings or {}))]).all())
            except Py4JJavaError as error:
                if "TopicExistsException" not in str(error.java_exception):
                    raise

    def lag(self, group: str, topic: str) -> int:
        """Return how many messages of a topic a group has not committed yet."""
        return sum(self.use(group, topic).lags)

    def messages(self, topic: str) -> int:
        """Return how many messages were ever written to a topic; 0 if there is no such topic."""
        with self._client() as client:
            return sum(int(end.offset()) for end in self._ends(client, self._places(topic)).values())

    def is_whole(self, topic: str) -> bool:
        """Tell whether all partitions still have their first message; true if the topic does not exist yet."""
        with self._client() as client:
            return all(end.offset() == 0 for end in self._ends(client, self._places(topic), "earliest").values())

    def use(self, group: str, topic: str) -> GroupUse:
        """Return how many messages of each partition a group has not committed yet, and what its members measured."""
        places = self._places(topic)
        with self._client() as client:
            ends = self._ends(client, places)
            known = self._get(client.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata())
            found = [known.get(each) for each in places]
            lags = [
                int(ends.get(each).offset()) - (0 if at is None else int(at.offset()))
                for each, at in zip(places, found, strict=True)
            ]
            costs = ConsumerCosts.sum({str(at.metadata()) for at in found if at is not None})
            return GroupUse(tuple(lags), costs)

    def _places(self, topic: str) -> list[Any]:
        jvm: Any = self.spark._jvm
        kinds = ["java.lang.String", jvm.java.lang.Integer.TYPE]
        numbers = range(self.partitions(topic) or 0)
        return [self._new("org.apache.kafka.common.TopicPartition", kinds, topic, number) for number in numbers]

    def _ends(self, client: Any, places: list[Any], which: str = "latest") -> Any:
        """Return where partitions end, or begin if `which` is earliest."""
        wanted = self._call("org.apache.kafka.clients.admin.OffsetSpec", which, [])
        return self._get(client.listOffsets(_java_map(self.spark, dict.fromkeys(places, wanted))).all())

    @contextmanager
    def _client(self) -> Iterator[Any]:
        jvm: Any = self.spark._jvm
        properties = jvm.java.util.Properties()
        for name, value in self.settings.items():
            properties.setProperty(name, value)
        client = self._call("org.apache.kafka.clients.admin.Admin", "create", ["java.util.Properties"], properties)
        try:
            yield client
        except Py4JJavaError as error:
            raise SessionError(
                f"Kafka rejected the request: {error.java_exception.getMessage()}",
                where=self.settings.get("bootstrap.servers"),
                hint="is the broker running, and are the security settings right",
            ) from None
        finally:
            client.close()

    def _get(self, future: Any) -> Any:
        jvm: Any = self.spark._jvm
        return future.get(ADMIN_SECONDS, jvm.java.util.concurrent.TimeUnit.SECONDS)

    # Kafka's classes are known to the class loader of Spark's jars only, so py4j cannot name them.

    def _new(self, name: str, kinds: list[Any], *arguments: Any) -> Any:
        constructor = _class(self.spark, name).getConstructor(self._kinds(kinds))
        return constructor.newInstance(_array(self.spark, "Object", arguments))

    def _call(self, name: str, method: str, kinds: list[Any], *arguments: Any) -> Any:
        found = _class(self.spark, name).getMethod(method, self._kinds(kinds))
        return found.invoke(None, _array(self.spark, "Object", arguments))

    def _kinds(self, kinds: list[Any]) -> Any:
        jvm: Any = self.spark._jvm
        named = [jvm.java.lang.Class.forName(kind) if isinstance(kind, str) else kind for kind in kinds]
        return _array(self.spark, "Class", named)


def client_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the client's settings among Spark's options, which begin with ``kafka.``.

    >>> client_settings({"kafka.bootstrap.servers": "127.0.0.1:9092", "includeHeaders": "true"})
    {'bootstrap.servers': '127.0.0.1:9092'}
    """
    found = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    if "bootstrap.servers" not in found:
        raise ArgumentError("no broker is given", where="options", hint="set kafka.bootstrap.servers")
    return found


def _class(spark: SparkSession, name: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)


def _object(spark: SparkSession, name: str) -> Any:
    """Return a Scala object by the name of its class."""
    return _class(spark, f"{name}$").getField("MODULE$").get(None)


def _java_map(spark: SparkSession, entries: Mapping[Any, Any]) -> Any:
    jvm: Any = spark._jvm
    made = jvm.java.util.HashMap()
    for key, value in entries.items():
        made.put(key, value)
    return made


def _array(spark: SparkSession, kind: str, items: Sequence[Any]) -> Any:
    gateway: Any = spark.sparkContext._gateway
    jvm: Any = spark._jvm
    array = gateway.new_array(getattr(jvm.java.lang, kind), len(items))
    for at, item in enumerate(items):
        array[at] = item
    return array
