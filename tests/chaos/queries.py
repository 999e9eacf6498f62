"""The queries that are struck, each with the rows that Spark alone would give."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

import unskew
from chaos.ledger import Ledger, RandomMoves
from unskew.operators import Aggregate
from unskew.spark.stage import Stage

SCHEMA = "key string, source long, sequence long, at timestamp"
DELAY, WINDOW, GAP = "10 seconds", "20 seconds", "3 seconds"
LIFE_MS = 1500
LIFE_SCHEMA = "key string, rows long, old_secret long, secret long, disorder long, closed boolean"


@dataclass(frozen=True)
class Query:
    """A balanced query.

    Parameters
    ----------
    balanced
        Makes it, from a stream and a seed for its moves.
    native
        Gives what Spark alone says about all rows together.
    kept
        The keys whose rows are compared with `native`, as SQL.
    """

    balanced: Callable[[DataFrame, int], Stage]
    native: Callable[[DataFrame], DataFrame]
    kept: str = "true"


def _balance(events: DataFrame, seed: int, **options: Any) -> Any:
    options = {"channels": 4, "planner": RandomMoves(seed=seed), "tracked_keys": 50} | options
    return unskew.balance(events, "key", min_gain=-np.inf, slots=64, **options)


def chain(events: DataFrame, seed: int) -> Stage:
    return _balance(events, seed).apply(Ledger())


def totals(events: DataFrame, seed: int) -> Stage:
    """Totals of keys that are split over channels."""
    planner = {"planner": "mixed"} if seed % 2 else {}
    functions = Aggregate(rows="count", total="sum(sequence)", latest="max(source)")
    return _balance(events, seed, split="auto", **planner).apply(functions)


def windows(events: DataFrame, seed: int) -> Stage:
    balanced = _balance(events.withWatermark("at", DELAY), seed)
    return balanced.window(WINDOW).aggregate(n="count", total="sum(sequence)", least="min(sequence)")


def sessions(events: DataFrame, seed: int) -> Stage:
    balanced = _balance(events.withWatermark("at", DELAY), seed)
    return balanced.session_window(GAP).aggregate(n="count", total="sum(sequence)", most="max(sequence)")


def lives(events: DataFrame, seed: int) -> Stage:
    """A function with a chain of secrets that forgets a key a while after its last row, by the clock."""
    return _balance(events, seed).apply_per_key(
        one_life, LIFE_SCHEMA, "rows long, secret long, last array<long>", timeout="ProcessingTimeTimeout"
    )


def one_life(key: tuple[Any, ...], rows: Any, state: tuple[Any, ...] | None) -> Any:
    count, secret, last = state or (0, None, None)
    if rows.timed_out:
        return None, (key[0], count, secret, None, 0, True)
    flat = [] if last is None else [int(number) for number in last]
    seen, disorder = dict(zip(flat[::2], flat[1::2], strict=True)), 0
    for source, sequence in zip(rows["source"].tolist(), rows["sequence"].tolist(), strict=True):
        disorder += seen.get(source, -1) >= sequence
        seen[source] = sequence
    new = random.SystemRandom().getrandbits(62)
    kept = (count + len(rows), new, [number for pair in seen.items() for number in pair])
    return kept, (key[0], kept[0], secret, new, disorder, False), rows.clock.processing_time_ms + LIFE_MS


def _counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").agg(sql.count("*").alias("rows"))


def _summed(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").agg(sql.count("*").alias("rows"), sql.sum("sequence").alias("total"))


def _windowed(rows: DataFrame) -> DataFrame:
    results = (sql.count("*").alias("n"), sql.sum("sequence").alias("total"), sql.min("sequence").alias("least"))
    return rows.groupBy("key", sql.window("at", WINDOW)).agg(*results)


def _in_sessions(rows: DataFrame) -> DataFrame:
    results = (sql.count("*").alias("n"), sql.sum("sequence").alias("total"), sql.max("sequence").alias("most"))
    return rows.groupBy("key", sql.session_window("at", GAP)).agg(*results)


NOT_LAST = "key IS NULL OR key <> 'last'"  # which never ends

QUERIES = {
    "chain": Query(chain, _counted),
    "totals": Query(totals, _summed),
    "windows": Query(windows, _windowed, NOT_LAST),
    "sessions": Query(sessions, _in_sessions, NOT_LAST),
    "lives": Query(lives, _counted),
}
