"""Every key of a table is found where Spark's expression looks, and no other key passes for it."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.hashing import xxhash64
from unskew.kafka.decision import Route
from unskew.kafka.lookup import RouteTable, displace


def find(laid, hashed):
    """Look a hash up as Spark's expression does."""
    bits = hashed % (1 << 64)
    return laid.places[bits >> laid.shifts[bits % len(laid.shifts)] & len(laid.places) - 1]


@given(st.sets(st.binary(max_size=12), max_size=300))
def test_every_hash_has_a_place_of_its_own(keys):
    array = xxhash64([pa.array(sorted(keys), pa.binary())])
    laid = displace(array)
    assert [find(laid, each) for each in array.tolist()] == list(range(len(array)))
    assert sorted(place for place in laid.places if place >= 0) == list(range(len(array)))


def test_hashes_that_differ_in_high_bits_only():
    array = np.arange(64, dtype=np.int64) << 40
    laid = displace(array)
    assert [find(laid, each) for each in array.tolist()] == list(range(64))


def test_numbers_that_are_no_hashes_are_refused():
    with pytest.raises(ArgumentError, match="do not look like hashes"):
        displace(np.array([0, 1 << 20, 1 << 61]))


@pytest.mark.spark
def test_spark_looks_where_the_key_is(spark):
    from pyspark.sql import functions as sql

    from unskew.kafka.spark_kafka import constant, place_of

    routes = {f"kéy{number}".encode(): Route(number % 5, number) for number in range(0, 500, 7)}
    table = RouteTable.of(routes)
    rows = spark.range(500).select(sql.concat(sql.lit("kéy"), sql.col("id").cast("string")).cast("binary").alias("key"))
    place = place_of(sql.col("key"), table)
    found = rows.select("key", *(sql.get(constant(table, name), place).alias(name) for name in ("keys", "partitions")))
    seen = {bytes(row.key): row.partitions for row in found.collect() if row["keys"] == row.key}
    assert seen == {key: route.partition for key, route in routes.items()}
    assert len(json.loads(table.columns["keys"])) == len(table.keys)
    hashes = xxhash64([pa.array(list(routes), pa.binary())])
    assert len(set(hashes.tolist())) == len(routes)
