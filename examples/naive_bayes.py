"""Naive Bayes on a stream: which part of SciPy does a paragraph of its documentation speak of?

    python examples/naive_bayes.py

Documents are the paragraphs of SciPy's docstrings, classes the packages that they come from. Words follow Zipf's law,
so that the channel of "the" would have the most work; unskew counts words where they are read and balances the rest.
The model is compared with one that was trained in this process. Then the stream answers by itself: a quarter of the
paragraphs has no label, and gets one from what the batches before have taught.
"""

import argparse
import importlib
import inspect
import re
from collections import Counter
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

import unskew
from unskew.operators import NaiveBayes, NaiveBayesClassifier, NaiveBayesModel
from unskew.spark import session
from unskew.testing import write_batches

PACKAGES = ("cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "stats")
WORD = re.compile(r"[a-z_]{2,}")


def paragraphs(packages: tuple[str, ...] = PACKAGES) -> pa.Table:
    """Return the paragraphs of all public docstrings, in random order: their words, and the package."""
    found: dict[str, str] = {}
    for package in packages:
        module = importlib.import_module(f"scipy.{package}")
        for name in sorted(getattr(module, "__all__", ())):
            for text in (inspect.getdoc(getattr(module, name)) or "").split("\n\n"):
                found.setdefault(text, package)
    words = [WORD.findall(text.lower()) for text in found]
    rows = pa.table({"words": pa.array(words, pa.list_(pa.string())), "label": list(found.values())})
    long_enough = rows.filter(pa.compute.greater_equal(pa.compute.list_value_length(rows["words"]), 8))
    return long_enough.take(pa.array(np.random.default_rng(0).permutation(long_enough.num_rows)))


def train(documents: DataFrame, classes: list[str], checkpoint: str, asked: pa.Table) -> tuple[NaiveBayesModel, Any]:
    """Count words in a balanced query; after every batch, classify the documents that nobody counts."""
    model = NaiveBayesModel(classes)

    def learn(counts: DataFrame, batch_id: int) -> None:
        nonlocal model
        model = model.after(counts.toArrow())
        print(f"batch {batch_id}: {len(model.words):,} words, accuracy {accuracy(model, asked):.1%}")

    # one row per word, and one per document with no word, from which follows how frequent classes are
    words = documents.selectExpr("label", "explode(array_append(words, cast(null as string))) as word")
    query = (
        unskew.balance(words, "word", channels=4)
        .apply(NaiveBayes("label", classes))
        .writeStream.option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .foreachBatch(learn)
        .start()
    )
    query.awaitTermination()
    return model, query


def with_questions(documents: pa.Table, batches: int) -> list[pa.Table]:
    """Return numbered documents in batches; every fourth one has lost its label."""
    numbers = np.arange(documents.num_rows)
    label = pa.array(documents["label"].to_pylist(), pa.string(), mask=numbers % 4 == 0)
    mixed = pa.table({"id": numbers, "words": documents["words"], "label": label})
    size = -(-mixed.num_rows // batches)
    return [mixed.slice(start, size) for start in range(0, mixed.num_rows, size)]


def classify(documents: DataFrame, classes: list[str], checkpoint: str, **settings: Any) -> list[pa.Table]:
    """Learn from documents with a label and classify the others, in one balanced query; return each batch's answers."""
    answers = []
    query = (
        unskew.balance(documents, "id", **settings)
        .apply(NaiveBayesClassifier("words", "label", classes))
        .writeStream.option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .foreachBatch(lambda rows, batch_id: answers.append(rows.toArrow()))
        .start()
    )
    query.awaitTermination()
    return answers


def accuracy(model: NaiveBayesModel, asked: pa.Table) -> float:
    """Return the share of documents that are classified rightly."""
    return float(np.mean(np.array(model.classify(asked["words"]).to_pylist()) == np.array(asked["label"].to_pylist())))


def trained_here(documents: pa.Table, classes: list[str]) -> NaiveBayesModel:
    """Return the same model, counted in this process."""
    rows = zip(documents["words"].to_pylist(), documents["label"].to_pylist(), strict=True)
    counts = Counter((word, label) for words, label in rows for word in [*words, None])
    words = sorted({word for word, _ in counts if word is not None})
    table = [[counts[word, label] for label in classes] for word in [*words, None]]
    return NaiveBayesModel(classes).after(pa.table({"word": pa.array([*words, None], pa.string()), "counts": table}))


def main() -> None:
    """Run the example."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--batches", type=int, default=6)
    given = options.parse_args()
    documents = paragraphs()
    to_learn, asked = documents.slice(0, documents.num_rows * 3 // 4), documents.slice(documents.num_rows * 3 // 4)
    classes = sorted(set(to_learn["label"].to_pylist()))
    spark = session()
    with TemporaryDirectory() as folder:
        size = -(-to_learn.num_rows // given.batches)
        write_batches(folder, [to_learn.slice(number * size, size) for number in range(given.batches)])
        stream = spark.readStream.schema("words array<string>, label string").option("maxFilesPerTrigger", 1)
        model, query = train(stream.parquet(folder), classes, f"{folder}/checkpoint", asked)
    alone = trained_here(to_learn, classes)
    same = model.classify(asked["words"]).equals(alone.classify(asked["words"]))
    print(f"{len(query.moves)} keys and slots changed their channel")
    print(
        f"accuracy {accuracy(model, asked):.1%}, in one process {accuracy(alone, asked):.1%}; all answers equal: {same}"
    )
    with TemporaryDirectory() as folder:
        write_batches(folder, with_questions(documents, given.batches))
        stream = spark.readStream.schema("id long, words array<string>, label string").option("maxFilesPerTrigger", 1)
        true = np.array(documents["label"].to_pylist())
        for batch, answers in enumerate(classify(stream.parquet(folder), classes, f"{folder}/checkpoint")):
            right = np.mean(true[answers["id"].to_numpy()] == np.array(answers["predicted"].to_pylist()))
            said = f"{right:.1%} classified rightly" if batch else "nothing has been learned before"
            print(f"batch {batch}: {answers.num_rows} paragraphs without a label, {said}")
    spark.stop()


if __name__ == "__main__":
    main()
