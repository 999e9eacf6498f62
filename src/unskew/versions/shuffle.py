"""Shuffles by the number of a partition."""

from __future__ import annotations

from functools import lru_cache

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from unskew.versions import PARTITIONS_BY_ID


def repartition_by_id(rows: DataFrame, count: int, column: str) -> DataFrame:
    """Send each row to the partition whose number it has in a column, modulo `count`.

    Before 4.1 Spark only knows partitions by hash, so a row gets a number that has the right hash.
    """
    if PARTITIONS_BY_ID:
        return rows.repartitionById(count, sql.col(column))
    labels = ", ".join(map(str, labels_of(count)))
    return rows.repartition(count, sql.expr(f"element_at(array({labels}), cast(pmod({column}, {count}) + 1 as int))"))


def partition_keys(count: int) -> tuple[int, ...]:
    """Return for each partition the integer that `repartition_by_key` sends there: its number, or one of its hash."""
    return tuple(range(count)) if PARTITIONS_BY_ID else labels_of(count)


def repartition_by_key(rows: DataFrame, count: int, column: str) -> DataFrame:
    """Send each row to the partition that its column names by `partition_keys`.

    Spark knows then that rows which agree in this column lie together, so a ``groupBy`` that begins with it needs no
    second shuffle.
    """
    by = sql.col(column)
    return rows.repartitionById(count, by) if PARTITIONS_BY_ID else rows.repartition(count, by)


@lru_cache(maxsize=64)
def labels_of(count: int) -> tuple[int, ...]:
    """Return for each partition an integer that Spark's hash sends there."""
    found: dict[int, int] = {}
    label = 0
    while len(found) < count:
        found.setdefault(spark_hash(label) % count, label)
        label += 1
    return tuple(found[partition] for partition in range(count))


def spark_hash(value: int) -> int:
    """Return what Spark's ``hash`` is of an int that is not negative: Murmur3 with the seed 42.

    >>> spark_hash(1)
    -559580957
    """
    mixed = value * 0xCC9E2D51 & _WORD
    mixed = _rotated(mixed, 15) * 0x1B873593 & _WORD
    hashed = (_rotated(42 ^ mixed, 13) * 5 + 0xE6546B64 & _WORD) ^ 4
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _WORD
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >> 31 else hashed


_WORD = (1 << 32) - 1


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD
