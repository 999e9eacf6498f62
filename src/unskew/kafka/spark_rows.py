"""What the gateway adds to a batch's query: each row's partition and number, and the counts of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, StringType, StructType

from unskew.kafka.decision import FIRST_IN_BLOCK, Route
from unskew.kafka.lookup import RouteTable
from unskew.kafka.messages import DATA, FLAG, LANE_SIGN, NAMES, SEQUENCE
from unskew.kafka.spark_kafka import constant, murmur2, place_of
from unskew.versions.shuffle import repartition_by_id

if TYPE_CHECKING:
    from unskew.kafka.spark_gateway import Gateway

Stamp = Literal["none", "moved", "all"]

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
SEEN = "seen"  # the name under which a batch's counts are observed: rows, others, routed, as JSON
KEYS_LISTED = 1000  # of the keys without a route, the heaviest are counted one by one
_KEYS_TRACKED = 4_000
_ROW_MASK = (1 << 33) - 1  # of monotonically_increasing_id: the row within its task


class RowQuery:
    """Turns a batch's rows into what Kafka gets: key, value, partition and headers.

    Everything is a Spark expression, compiled into the stage that reads the source; no row goes to Python. Making the
    expressions takes a thousand calls into Java, a tenth of a second, so it happens once for a table of routes. Of
    the rows of keys without a route, one in `count_every` is counted.
    """

    def __init__(self, gateway: Gateway, routes: Mapping[bytes, Route], count_every: int) -> None:
        self._table = table = RouteTable.of(routes) if routes else None
        self.count_every = count_every
        schema, key, order_by = gateway.events.schema, gateway.key, gateway.order_by
        self._partitions, self._keyed = gateway.partitions, gateway.keyed_source
        self._text_key = not isinstance(schema[key].dataType, BinaryType)
        self._has_headers = "headers" in schema.names
        order = [sql.col(name).alias(f"order_{at}") for at, name in enumerate(order_by)]
        given = [_foreign(sql.col("headers").cast(HEADERS_TYPE)).alias("given")] if self._has_headers else []
        name = (sql.col(key).cast("string") if self._text_key else sql.col(key)).cast("binary")
        self._chosen = [
            name.alias("key"),
            _value(schema, gateway.value).alias("value"),
            *given,
            *order,
            sql.monotonically_increasing_id().alias("position"),
            _route(table, name).alias("route"),
        ]
        index, count = gateway.share
        self._own = sql.pmod(sql.xxhash64("key"), sql.lit(count)) == index if count > 1 else None
        partition = self._partition(gateway.events.sparkSession).alias("partition")
        self._placed = [sql.col("*"), partition]
        # The key breaks ties of order_by, so that the order is the same whenever the rows come again.
        self._order = [*(f"order_{at}" for at in range(len(order_by))), *(["key"] if order_by else []), "position"]
        # The row number needs a column of its own: inside a condition it would count only the rows that meet it.
        self._row = sql.monotonically_increasing_id().bitwiseAND(sql.lit(_ROW_MASK)).alias("row")
        self._written = [
            sql.col("key"),
            sql.col("value"),
            partition if self._keyed else sql.col("partition"),
            self._headers(gateway.stamp, _lane(self._keyed, gateway.lane)).alias("headers"),
            sql.col("route"),
            self._other().alias("other"),
        ]
        tracked = 2 * len(routes) + 64  # never full, so that the counts are exact
        counts = [
            sql.count(sql.lit(1)).alias("rows"),
            _top("other", KEYS_LISTED, _KEYS_TRACKED).alias("others"),
            *([_top("route", tracked, tracked).alias("routed")] if table else []),
        ]
        self._counts = sql.to_json(sql.struct(*counts)).alias(SEEN)

    def of(self, rows: DataFrame, block: int) -> DataFrame:
        """Return the rows to write for a batch, numbered from a block of sequence numbers."""
        # The block is text: a number would be compiled into the query, and every batch would be compiled anew.
        numbers = [self._row, sql.lit(str(block)).alias("block")]
        if self._has_headers:  # another gateway's markers are no rows
            rows = rows.where(~sql.coalesce(sql.exists("headers", _marks), sql.lit(False)))
        routed = rows.select(*self._chosen, *(numbers if self._keyed else ()))
        if self._own is not None:
            routed = routed.where(self._own)
        if not self._keyed:
            shuffled = repartition_by_id(routed.select(*self._placed), self._partitions, "partition")
            routed = shuffled.sortWithinPartitions(*self._order).select("*", *numbers)
        return routed.select(*self._written).observe(SEEN, self._counts)

    def counted(self, seen: Mapping[str, Any]) -> tuple[dict[bytes, int], dict[bytes, int]]:
        """Return the observed counts by key: exact for keys with a route, estimated for the heaviest others."""
        keys, encoding = self._table.keys if self._table else (), "utf-8" if self._text_key else "iso-8859-1"
        routed = {key: count for place, count in _counts(seen.get("routed")) if (key := keys[place]) is not None}
        others = {name.encode(encoding): self.count_every * count for name, count in _counts(seen.get("others"))}
        return routed, others

    def _partition(self, spark: SparkSession) -> Column:
        many = sql.lit(self._partitions)
        home = sql.pmod(murmur2(spark, sql.col("key")).bitwiseAND(0x7FFFFFFF), many)
        home = sql.when(sql.col("key").isNull(), sql.pmod("position", many)).otherwise(home).cast("int")
        if self._table is None:
            return home
        there = sql.get(constant(self._table, "partitions"), sql.col("route"))
        return sql.when(sql.col("route").isNull(), home).otherwise(there)

    def _other(self) -> Column:
        """Return the row's key if it is counted without a route. Spark would interpret this in `observe`, slowly."""
        counted = sql.col("route").isNull()
        if self.count_every > 1:  # by the position's hash, so that a source with a rhythm does not mislead us
            counted &= sql.pmod(sql.xxhash64("position"), sql.lit(self.count_every)) == 0
        return sql.when(counted, sql.col("key").cast("string") if self._text_key else sql.decode("key", "ISO-8859-1"))

    def _headers(self, stamp: Stamp, lane: Sequence[Column]) -> Column:
        number = sql.concat("block", (sql.col("row") + sql.lit(FIRST_IN_BLOCK)).cast("string"), *lane).cast("binary")
        stamped = sql.array(sql.struct(sql.lit(SEQUENCE).alias("key"), number.alias("value")))
        headers = sql.lit(None).cast(HEADERS_TYPE)
        if stamp == "all":
            headers = stamped
        elif stamp == "moved" and self._table is not None:
            headers = sql.when(sql.col("route").isNotNull(), stamped)
        if not self._has_headers:
            return headers
        both = sql.concat("given", sql.coalesce(headers, sql.array().cast(HEADERS_TYPE)))
        return sql.when(sql.col("given").isNull(), headers).otherwise(both)


def _route(table: RouteTable | None, key: Column) -> Column:
    """Return the place of a key's route, null if it has none."""
    if table is None:
        return sql.lit(None).cast("int")
    place = place_of(key, table)
    return sql.when(sql.get(constant(table, "keys"), place) == key, place)


def _marks(header: Column) -> Column:
    return (header["key"] == FLAG) & (header["value"].cast("string") != str(DATA))


def _foreign(headers: Column) -> Column:
    """Return headers without those of another gateway, which mean nothing here."""
    return sql.filter(headers, lambda each: ~each["key"].isin(*sorted(NAMES)))


def _value(schema: StructType, chosen: str | None) -> Column:
    name = chosen or ("value" if "value" in schema.names else None)
    if name is None:
        return sql.to_json(sql.struct(*[each for each in schema.names if each != "headers"]))
    kept = isinstance(schema[name].dataType, BinaryType | StringType)  # the writer takes both
    return sql.col(name) if kept else sql.col(name).cast("string")


def _lane(keyed_source: bool, lane: str) -> list[Column]:
    if keyed_source:
        return [sql.lit(f"{LANE_SIGN}{lane}.") if lane else sql.lit(LANE_SIGN), sql.spark_partition_id()]
    return [sql.lit(f"{LANE_SIGN}{lane}")] if lane else []


def _top(column: str, listed: int, tracked: int) -> Column:
    return sql.call_function("approx_top_k", sql.col(column), sql.lit(listed), sql.lit(tracked))


def _counts(top: list[Any] | None) -> list[tuple[Any, int]]:
    return [(each["item"], int(each["count"])) for each in top or [] if each.get("item") is not None]
