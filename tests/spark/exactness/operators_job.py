"""Every operator in a query of its own; meant to be killed and started again until all have ended."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql import functions as sql
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import unskew
from chaos.ledger import RandomMoves
from unskew.operators import (
    DecisionTree,
    HeavyHitters,
    Histogram,
    History,
    IntervalJoin,
    NaiveBayes,
    NaiveBayesClassifier,
    ProgressiveSort,
    SelfJoin,
    TableJoin,
)
from unskew.spark.local_session import SHORT_RUN, session


class Visits(StatefulProcessor):
    """Keeps a key's rows in state of every kind, and yields them when a timer in event time has come."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.latest = handle.getValueState("latest", "at timestamp, n long")
        self.ids = handle.getListState("ids", "id long")
        self.words = handle.getMapState("words", "word string", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        at, n = self.latest.get() or (datetime(1970, 1, 1), 0)
        for row in rows:
            at, n = max(at, row.at.replace(tzinfo=None)), n + 1
            self.ids.appendValue((row.id,))
            self.words.updateValue((row.word,), ((self.words.getValue((row.word,)) or (0,))[0] + 1,))
        self.latest.update((at, n))
        for timer in self.handle.listTimers():
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(int(at.replace(tzinfo=UTC).timestamp() * 1000) + 3_000)
        return iter(())  # a row for every batch would depend on how files fall into batches

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        told = repr((sorted(self.ids.get()), sorted(self.words.iterator()), expiredTimerInfo.getExpiryTimeInMs()))
        yield Row(key=key[0], n=self.latest.get()[1], told=told)
        self.ids.clear()
        self.words.clear()


DELAY = "1 hour"  # no row is late, so that results do not depend on how files fall into batches


def stages(events: Any) -> dict[str, Any]:
    """Return the stages by name; those whose name ends in ``-totals`` replace earlier rows of a key."""
    timed = events.withWatermark("at", DELAY)
    halves = {name: timed.where(sql.expr(f"id % 2 = {rest}")) for name, rest in (("left", 0), ("right", 1))}
    both = unskew.tagged("key", **halves)
    table = unskew.tagged("key", table=events.where("id % 5 = 0"), rows=events.where("id % 5 > 0"))

    def balanced(rows: Any, key: str = "key", seed: int = 0) -> Any:
        return unskew.balance(rows, key, channels=3, planner=RandomMoves(seed=seed), min_gain=-np.inf, slots=64)

    return {
        "tumbling": balanced(timed).window("20 seconds").aggregate(n="count", total="sum(id)"),
        "sliding": balanced(timed, seed=1).window("20 seconds", slide="10 seconds").aggregate(n="count"),
        "sessions": balanced(timed, seed=2).session_window("3 seconds").aggregate(n="count", most="max(id)"),
        "self-join": balanced(timed, seed=3).apply(
            SelfJoin("at", "2 seconds", columns=["id"], where=pc.field("left_id") < pc.field("right_id"))
        ),
        "interval-join": balanced(both, seed=4).apply(
            IntervalJoin("left", "right", earliest="-1 second", latest="2 seconds", how="left")
        ),
        "sort": balanced(timed, seed=5).apply(ProgressiveSort("at")),
        "history": balanced(events, seed=10).apply(
            History(5, mean="mean(id)", least="min(word)", n="count(key)", middle="median(id)")
        ),
        "table-join": balanced(table, seed=11).apply(TableJoin("table", how="left")),
        "aggregates-totals": balanced(events, seed=6).aggregate(
            n="count",
            spread="var_pop(id)",
            different="approx_count_distinct(id)",
            best="top(id, 3)",
            words="count_distinct(word)",
            some="collect_set(word, 5)",
            middle="median(id)",
            upper="percentile_approx(id, 0.9)",
        ),
        "combined-totals": unskew.balance(events, "key", channels=3).aggregate(
            n="count", total="sum(id)", mean="mean(id)", first="first(word)", latest="max_by(word, id)"
        ),
        "combined-moves-totals": balanced(events, seed=15).aggregate(n="count", total="sum(id)", least="min(word)"),
        "hitters-totals": balanced(events, seed=7).apply(HeavyHitters("word", capacity=50)),
        "histogram-totals": balanced(events, seed=8).apply(Histogram("id", bins=4000)),
        "bayes-totals": balanced(events, "word", seed=9).apply(NaiveBayes("label", classes=["x", "y"])),
        "tree-rounds": balanced(events.selectExpr("id % 7 as a", "id % 11 as b", "label"), "label", seed=12).apply(
            DecisionTree(["a", "b"], ["x", "y"], min_rows=100, min_gain=0.0, max_leaves=12)
        ),
        "heaviest-rounds": balanced(events, "word", seed=13).heavy_hitters(k=5),
        "visits": balanced(timed, seed=16).transformWithState(
            Visits(), "key string, n long, told string", "append", "EventTime"
        ),
        "bayes-answers": balanced(
            events.selectExpr("id", "array(key, word) as words", "if(id % 3 = 0, null, label) as label"), "id", seed=14
        ).apply(NaiveBayesClassifier("words", "label", ["x", "y"])),
    }


def main(home: Path, master: str, names: list[str]) -> None:
    """Run queries to their end, one after the other."""
    memory = {"spark.driver.memory": "1g", "spark.executor.memory": "1g"}
    spark = session(master=master, config={**SHORT_RUN, **memory})
    schema = "key string, at timestamp, id long, word string, label string"
    events = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(home / "data"))
    everything = stages(events)
    for name in names:
        stage = everything[name]
        writer = stage.writeStream.option("checkpointLocation", str(home / "checkpoints" / name)).format("parquet")
        query = writer.trigger(availableNow=True).start(str(home / "out" / name))
        query.awaitTermination()
        print(f"{name} ENDED with {len(query.moves)} moves in this run", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
