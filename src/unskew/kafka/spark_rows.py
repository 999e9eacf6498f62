"""What the gateway adds to a batch's query: each row's partition, its number, and the counts of keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, StringType, StructType

from unskew.kafka.decision import FIRST_IN_BLOCK
from unskew.kafka.lookup import RouteTable
from unskew.kafka.messages import DATA, FLAG, LANE_SIGN, NAMES, SEQUENCE
from unskew.kafka.spark_kafka import constant, murmur2, place_of

Stamp = Literal["none", "moved", "all"]

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
SEEN = "seen"
"""Name under which the counts of a batch are observed: ``rows``, ``others``, ``routed``, as JSON."""

KEYS_LISTED = 1000
"""Keys whose messages are counted one by one in a batch, beside those that have routes: the heaviest."""

_KEYS_TRACKED = 4_000
_ROW_MASK = (1 << 33) - 1  # of monotonically_increasing_id: the row within its task


class RowQuery:
    """Makes of a batch's rows what Kafka is to get: key, value, partition and headers.

    Everything is an expression of Spark's own, compiled into the stage that reads the source; no row goes to Python.
    The expressions are made once for a table of routes and used for all batches until the next: making them takes a
    thousand calls from Python into Java, a tenth of a second in which nothing else would happen.

    Parameters
    ----------
    events
        The stream, or another DataFrame with its columns.
    key, value, order_by
        Its columns, as `unskew.kafka.Gateway` has them.
    partitions
        Of the topic.
    stamp, keyed_source, share, lane
        As `unskew.kafka.Gateway` has them.
    table
        The routes; None if all keys go home.
    count_every
        Of the rows of keys without a route, one in so many is counted.
    """

    def __init__(
        self,
        events: DataFrame,
        *,
        key: str,
        value: str | None,
        order_by: Sequence[str],
        partitions: int,
        stamp: Stamp,
        keyed_source: bool,
        share: tuple[int, int],
        lane: str,
        table: RouteTable | None,
        count_every: int,
    ) -> None:
        schema = events.schema
        self._partitions, self._keyed = partitions, keyed_source
        self._text_key = not isinstance(schema[key].dataType, BinaryType)
        self._has_headers = "headers" in schema.names
        order = [sql.col(name).alias(f"order_{at}") for at, name in enumerate(order_by)]
        given = [_foreign(sql.col("headers").cast(HEADERS_TYPE)).alias("given")] if self._has_headers else []
        name = (sql.col(key).cast("string") if self._text_key else sql.col(key)).cast("binary")
        self._chosen = [
            name.alias("key"),
            _value(schema, value).alias("value"),
            *given,
            *order,
            sql.monotonically_increasing_id().alias("position"),
            _route(table, name).alias("route"),
        ]
        index, count = share
        self._own = sql.pmod(sql.xxhash64("key"), sql.lit(count)) == index if count > 1 else None
        partition = self._partition(events, table).alias("partition")
        self._placed = [sql.col("*"), partition]
        # Where order_by agrees, the key decides: the same order whenever the rows come again.
        self._order = [*(f"order_{at}" for at in range(len(order_by))), *(["key"] if order_by else []), "position"]
        # The row in a column of its own: inside a condition it would count only the rows that meet it.
        self._row = sql.monotonically_increasing_id().bitwiseAND(sql.lit(_ROW_MASK)).alias("row")
        self._written = [
            sql.col("key"),
            sql.col("value"),
            partition if keyed_source else sql.col("partition"),
            self._headers(stamp, table, _lane(keyed_source, lane)).alias("headers"),
            sql.col("route"),
            self._other(count_every).alias("other"),
        ]
        routes = len(table.keys) - table.keys.count(None) if table else 0
        tracked = 2 * routes + 64  # never full, so that the counts are exact
        counts = [
            sql.count(sql.lit(1)).alias("rows"),
            _top("other", KEYS_LISTED, _KEYS_TRACKED).alias("others"),
            *([_top("route", tracked, tracked).alias("routed")] if table else []),
        ]
        self._counts = sql.to_json(sql.struct(*counts)).alias(SEEN)

    def of(self, rows: DataFrame, block: int) -> DataFrame:
        """Return what to write of a batch whose rows take their numbers from a block; observes what it counts."""
        # The block as text: a number would be compiled into the query, and every batch compiled anew.
        numbers = [self._row, sql.lit(str(block)).alias("block")]
        if self._has_headers:  # another gateway's markers are no rows
            rows = rows.where(~sql.coalesce(sql.exists("headers", _marks), sql.lit(False)))
        routed = rows.select(*self._chosen, *(numbers if self._keyed else ()))
        if self._own is not None:
            routed = routed.where(self._own)
        if not self._keyed:
            shuffled = routed.select(*self._placed).repartitionById(self._partitions, sql.col("partition"))
            routed = shuffled.sortWithinPartitions(*self._order).select("*", *numbers)
        return routed.select(*self._written).observe(SEEN, self._counts)

    def key_of(self, counted: str) -> bytes:
        """Return the key that is counted under a name among ``others``."""
        return counted.encode() if self._text_key else counted.encode("iso-8859-1")

    def _partition(self, events: DataFrame, table: RouteTable | None) -> Column:
        many = sql.lit(self._partitions)
        home = sql.pmod(murmur2(events.sparkSession, sql.col("key")).bitwiseAND(0x7FFFFFFF), many)
        home = sql.when(sql.col("key").isNull(), sql.pmod("position", many)).otherwise(home).cast("int")
        if table is None:
            return home
        there = sql.get(constant(table, "partitions"), sql.col("route"))
        return sql.when(sql.col("route").isNull(), home).otherwise(there)

    def _other(self, count_every: int) -> Column:
        """Return the key of a row to be counted that has no route. Here, since Spark interprets what it observes."""
        counted = sql.col("route").isNull()
        if count_every > 1:  # of the position's hash, so that a source with a rhythm does not deceive us
            counted &= sql.pmod(sql.xxhash64("position"), sql.lit(count_every)) == 0
        return sql.when(counted, sql.col("key").cast("string") if self._text_key else sql.decode("key", "ISO-8859-1"))

    def _headers(self, stamp: Stamp, table: RouteTable | None, lane: Sequence[Column]) -> Column:
        """Return a row's headers: its number, if it has one. Its set is the one that was opened last."""
        number = sql.concat("block", (sql.col("row") + sql.lit(FIRST_IN_BLOCK)).cast("string"), *lane).cast("binary")
        stamped = sql.array(sql.struct(sql.lit(SEQUENCE).alias("key"), number.alias("value")))
        headers = sql.lit(None).cast(HEADERS_TYPE)
        if stamp == "all":
            headers = stamped
        elif stamp == "moved" and table is not None:
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
    """Return headers without those of another gateway, which mean nothing behind this one."""
    return sql.filter(headers, lambda each: ~each["key"].isin(*sorted(NAMES)))


def _value(schema: StructType, chosen: str | None) -> Column:
    name = chosen or ("value" if "value" in schema.names else None)
    if name is None:
        return sql.to_json(sql.struct(*[each for each in schema.names if each != "headers"]))
    kept = isinstance(schema[name].dataType, BinaryType | StringType)  # text is text's bytes, which the writer takes
    return sql.col(name) if kept else sql.col(name).cast("string")


def _lane(keyed_source: bool, lane: str) -> list[Column]:
    """Return who numbers the rows, where that is not clear by itself."""
    if keyed_source:
        return [sql.lit(f"{LANE_SIGN}{lane}.") if lane else sql.lit(LANE_SIGN), sql.spark_partition_id()]
    return [sql.lit(f"{LANE_SIGN}{lane}")] if lane else []


def _top(column: str, listed: int, tracked: int) -> Column:
    return sql.call_function("approx_top_k", sql.col(column), sql.lit(listed), sql.lit(tracked))
