"""Naive Bayes against the same model trained in one process by scikit-learn."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import MultinomialNB

from unskew.errors import ArgumentError, ColumnError
from unskew.hashing import hash_keys
from unskew.operators import NaiveBayes, NaiveBayesModel
from unskew.splitters import splitter
from unskew.state import group_rows
from unskew.testing import check_operator, disturbed, run

CLASSES = ["art", "law", "sea"]
OPERATOR = NaiveBayes("label", CLASSES)
VOCABULARY = 120


def documents(seed: int, count: int) -> tuple[list[list[str]], list[str]]:
    """Documents of some ten words, drawn from one law of Zipf per class; the laws share all words."""
    random = np.random.default_rng(seed)
    ranks = np.random.default_rng(99).permuted(np.tile(np.arange(VOCABULARY), (len(CLASSES), 1)), axis=1)
    laws = 1.0 / (1.0 + ranks) ** 0.7
    laws /= laws.sum(axis=1, keepdims=True)
    labels = random.choice(len(CLASSES), count, p=[0.5, 0.3, 0.2])
    texts = [[f"w{word}" for word in random.choice(VOCABULARY, random.integers(0, 12), p=laws[c])] for c in labels]
    return texts, [CLASSES[label] for label in labels]


def exploded(texts: list[list[str]], labels: list[str | None]) -> pa.Table:
    rows = [(word, label) for words, label in zip(texts, labels, strict=True) for word in [*words, None]]
    columns = {"word": [word for word, _ in rows], "label": [label for _, label in rows]}
    return pa.table(columns, schema=pa.schema({"word": pa.string(), "label": pa.string()}))


def reference(texts: list[list[str]], labels: list[str], asked: list[list[str]]) -> tuple[Any, Any]:
    """Return what scikit-learn's model knows of documents of words that were seen."""
    names = sorted({word for words in texts for word in words})
    places = {name: place for place, name in enumerate(names)}

    def matrix(documents: list[list[str]]) -> np.ndarray:
        counts = np.zeros((len(documents), len(names)))
        for row, words in enumerate(documents):
            for word, times in Counter(words).items():
                if word in places:
                    counts[row, places[word]] = times
        return counts

    model = MultinomialNB(alpha=1.0).fit(matrix(texts), labels)
    assert list(model.classes_) == CLASSES
    return model.predict_joint_log_proba(matrix(asked)), model.predict(matrix(asked))


TRAINED, ASKED = documents(1, 400), documents(2, 300)


@pytest.mark.parametrize("disturb", [False, True], ids=["still", "moving"])
def test_is_the_model_of_a_single_process_after_every_batch(disturb: bool) -> None:
    texts, labels = TRAINED
    batches = [exploded(texts[at : at + 100], labels[at : at + 100]) for at in range(0, 400, 100)]
    steps = disturbed(batches, key="word", channels=3, seed=3) if disturb else batches
    outputs = run(OPERATOR, steps, key="word", channels=3, seed=3).outputs
    model = NaiveBayesModel(CLASSES)
    for number, output in enumerate(outputs, start=1):
        model = model.after(output)
        scores, classes = reference(texts[: 100 * number], labels[: 100 * number], ASKED[0])
        np.testing.assert_allclose(model.scores(ASKED[0]), scores, rtol=1e-12)
        assert model.classify(ASKED[0]).to_pylist() == classes.tolist()
    again = model.after(outputs[-1])
    assert (again.scores(ASKED[0]) == model.scores(ASKED[0])).all()
    accuracy = np.mean(np.array(model.classify(ASKED[0]).to_pylist()) == ASKED[1])
    assert accuracy > 0.7, "it has learned something: the most frequent class makes up half"


def test_partial_key_grouping_gives_the_same_model() -> None:
    """Words are counted on the lighter of two workers, row by row; then the two partial counts are merged."""
    rows, workers = exploded(*TRAINED), 5
    operator = OPERATOR.bind(rows.schema, ("word",))
    chosen = splitter("pkg").route(hash_keys(rows, "word"), np.zeros(workers)).channels
    parts = [rows.filter(pa.array(chosen == worker)) for worker in range(workers)]
    partials = [operator.combine(part, group_rows(part, hash_keys(part, "word"), ["word"]))[0] for part in parts]
    both = pa.concat_tables(partials).combine_chunks()
    groups = group_rows(both, hash_keys(both, "word"), ["word"])
    assert groups.counts.max() == 2
    merged = operator.finish(groups.keys, operator.merge(both.select(operator.value_schema.names), groups))
    whole = run(OPERATOR, [rows], key="word").outputs[0]
    assert sorted(map(repr, merged.to_pylist())) == sorted(map(repr, whole.to_pylist()))


LABELLED = st.tuples(st.sampled_from(["x", "y", "z", None]), st.sampled_from([*CLASSES, "elsewhere", None]))


@given(batches=st.lists(st.lists(LABELLED, max_size=12), min_size=1, max_size=4))
@settings(max_examples=15)
def test_counts_are_those_of_a_plain_count(batches: list[list[tuple[str | None, str | None]]]) -> None:
    schema, counts = pa.schema({"word": pa.string(), "label": pa.string()}), Counter[Any]()
    tables = [pa.Table.from_pylist([{"word": w, "label": c} for w, c in rows], schema) for rows in batches]
    for rows, output in zip(batches, run(OPERATOR, tables, key="word").outputs, strict=True):
        counts.update(rows)
        expected = {word: [counts[word, name] for name in CLASSES] for word, _ in rows}
        assert {row["word"]: row["counts"] for row in output.to_pylist()} == expected
        assert output.num_rows == len(expected)


def test_without_documents_classes_are_equally_likely() -> None:
    model = NaiveBayesModel(CLASSES)
    np.testing.assert_allclose(model.scores([["w1"], []]), np.log(1 / 3))
    assert model.classify([[]]).to_pylist() == ["art"]
    strangers = run(OPERATOR, [exploded([["w1"]], [None])], key="word").outputs[0]
    assert model.after(strangers).classify([["w1"]]).to_pylist() == ["art"]


def test_has_the_properties_of_an_operator() -> None:
    batches = [exploded(TRAINED[0][at : at + 8], TRAINED[1][at : at + 8]) for at in (0, 8)]
    check_operator(OPERATOR, batches, key="word", seeds=2)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: NaiveBayes("label", []), ArgumentError, "each once"),
        (lambda: NaiveBayes("label", ["a", "a"]), ArgumentError, "each once"),
        (lambda: OPERATOR.bind(pa.schema({"word": pa.string()}), ("word",)), ColumnError, "no column"),
        (lambda: OPERATOR.bind(pa.schema({"word": pa.string(), "label": pa.int64()}), ("word",)), ColumnError, "type"),
        (lambda: OPERATOR.bind(exploded([], []).schema, ("word", "label")), ArgumentError, "word alone"),
    ],
)
def test_what_cannot_work_is_refused(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_is_a_plain_value() -> None:
    assert repr(OPERATOR) == "NaiveBayes('label', ['art', 'law', 'sea'])"
    assert pickle.loads(pickle.dumps(OPERATOR)) == OPERATOR != NaiveBayes("label", ["art"])
