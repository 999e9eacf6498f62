"""Classifications of a stream against scikit-learn's model of the batches before, batch by batch."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.test_naive_bayes import CLASSES, documents, reference

from unskew.errors import ArgumentError, ColumnError
from unskew.operators import NaiveBayesClassifier, NaiveBayesModel
from unskew.testing import check_operator, disturbed, run

OPERATOR = NaiveBayesClassifier("words", "label", CLASSES)
SCHEMA = pa.schema({"id": pa.int64(), "words": pa.list_(pa.string()), "label": pa.string()})

Document = tuple[int, list[str] | None, str | None]


def table(rows: list[Document]) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)] or [[], [], []], schema=SCHEMA)


def mixed(seed: int, batches: int = 4, count: int = 120) -> list[list[Document]]:
    """Return documents of which about a third has no label."""
    random, found = np.random.default_rng(seed), []
    for batch in range(batches):
        texts, labels = documents(10 * seed + batch, count)
        shown = [None if random.random() < 0.35 else label for label in labels]
        found.append([(1000 * batch + i, *row) for i, row in enumerate(zip(texts, shown, strict=True))])
    return found


def moving(batches: list[pa.Table], channels: int, seed: int) -> list[Any]:
    """Move words and documents between channels before every batch, and let batches and drivers die."""
    own = [OPERATOR.bind(SCHEMA, ("id",)).expand(rows) for rows in batches]
    given = iter(batches)
    steps = disturbed(own, key=["word", "document"], channels=channels, seed=seed)
    return [next(given) if isinstance(step, pa.Table) else step for step in steps]


@pytest.mark.parametrize("disturb", [False, True], ids=["still", "moving"])
def test_answers_are_scikit_learns_by_the_batches_before(disturb: bool) -> None:
    batches = mixed(1)
    tables = [table(rows) for rows in batches]
    steps = moving(tables, channels=3, seed=2) if disturb else tables
    outputs = run(OPERATOR, steps, key="id", channels=3, seed=2).outputs
    assert all(row["predicted"] is None for row in outputs[0].to_pylist())
    for number, output in enumerate(outputs):
        asked = [row for row in batches[number] if row[2] is None]
        answers = {row["id"]: row["predicted"] for row in output.to_pylist()}
        assert len(answers) == output.num_rows == len(asked) > 10
        if number:
            learned = [row for rows in batches[:number] for row in rows if row[2] is not None]
            _, classes = reference([row[1] for row in learned], [row[2] for row in learned], [row[1] for row in asked])
            assert [answers[row[0]] for row in asked] == classes.tolist()


def slow_answer(learned: Counter[Any], totals: Counter[Any], seen: set[str], words: list[Any], smoothing: float) -> Any:
    """Choose the class of a document by the formula; None if nothing was learned, or if two classes are too close."""
    if not totals.total():
        return None
    scores = []
    for name in CLASSES:
        score = np.log(totals[name] / totals.total()) if totals[name] else -np.inf
        of_class = sum(learned[word, name] + smoothing for word in seen)
        for word in words:
            score += np.log((learned[word, name] + smoothing) / of_class) if word in seen else 0.0
        scores.append(score)
    first, second = sorted(scores, reverse=True)[:2]
    return "too close" if first - second < 1e-9 else CLASSES[int(np.argmax(scores))]


WORDS = st.none() | st.lists(st.sampled_from(["x", "y", "z", None]), max_size=4)
BATCHES = st.lists(
    st.lists(st.tuples(WORDS, st.sampled_from([*CLASSES, "elsewhere", None, None])), max_size=8), min_size=1, max_size=4
)


@given(batches=BATCHES, smoothing=st.sampled_from([0.1, 1.0]), channels=st.integers(1, 3))
@settings(max_examples=25)
def test_answers_follow_the_formula(
    batches: list[list[tuple[Any, str | None]]], smoothing: float, channels: int
) -> None:
    """Null words and lists, labels that are no class, batches without rows or without labels."""
    operator = NaiveBayesClassifier("words", "label", CLASSES, smoothing=smoothing)
    tables = [table([(i, *row) for i, row in enumerate(rows)]) for rows in batches]
    outputs = run(operator, tables, key="id", channels=channels, seed=channels).outputs
    counts, totals, seen = Counter[Any](), Counter[Any](), set[str]()
    for rows, output in zip(batches, outputs, strict=True):
        answers = {row["id"]: row["predicted"] for row in output.to_pylist()}
        assert answers.keys() == {i for i, (_, label) in enumerate(rows) if label is None}
        for i, answer in answers.items():
            expected = slow_answer(counts, totals, seen, rows[i][0] or [], smoothing)
            assert answer == expected or (expected == "too close" and answer in CLASSES)
        for words, label in rows:
            if label in CLASSES:
                totals[label] += 1
                counts.update((word, label) for word in words or [] if word is not None)
                seen.update(word for word in words or [] if word is not None)


def test_a_driver_can_go_on_with_the_model() -> None:
    """The lesson is the model of a single process, whatever the order of what was counted."""
    batches = mixed(3, batches=2)
    bound = OPERATOR.bind(SCHEMA, ("id",))
    learned = once = b""
    for rows in batches:
        counts = bound.expand(table(rows))
        learned = bound.learn(learned, counts.take(pa.array(np.random.default_rng(0).permutation(counts.num_rows))))
        once = bound.learn(once, counts)
    assert learned == once
    taught = [row for rows in batches for row in rows if row[2] is not None]
    asked, _ = documents(77, 50)
    scores, _ = reference([row[1] for row in taught], [row[2] for row in taught], asked)
    np.testing.assert_allclose(bound.model(learned).scores(asked), scores, rtol=1e-12)


def test_two_rows_with_the_same_key_get_an_answer_each() -> None:
    taught = table([(1, ["x"], "art"), (2, ["y"], "law")])
    asked = table([(7, ["x"], None), (7, ["y"], None), (7, ["x"], None)])
    output = run(OPERATOR, [taught, asked], key="id", channels=2).outputs[1]
    assert [tuple(row.values()) for row in output.to_pylist()] == [(7, "art"), (7, "art"), (7, "law")]


def test_labels_may_be_numbers_and_keys_have_several_columns() -> None:
    rows = pa.table(
        {
            "shop": pa.array(["a", None, "a"]).dictionary_encode(),
            "at": [1, None, 3],
            "words": pa.array([["x"], ["y"], ["y", "y"]], pa.large_list(pa.large_string())),
            "label": pa.array([4, 9, None], pa.int16()),
        }
    )
    operator = NaiveBayesClassifier("words", "label", [4, 9])
    nobody = rows.slice(1, 1).set_column(3, "label", pa.array([None], pa.int16()))
    outputs = run(operator, [rows, rows.slice(2), nobody], key=["shop", "at"]).outputs
    assert [output.to_pylist() for output in outputs] == [
        [{"shop": "a", "at": 3, "predicted": None}],
        [{"shop": "a", "at": 3, "predicted": 9}],
        [{"shop": None, "at": None, "predicted": 9}],
    ]
    assert outputs[0].schema.field("predicted").type == pa.int16()


def test_has_the_properties_of_an_operator() -> None:
    check_operator(OPERATOR, [table(rows) for rows in mixed(5, batches=3, count=12)], key="id", seeds=1)


def schema(**kinds: pa.DataType) -> pa.Schema:
    return pa.schema({"id": pa.int64(), "words": pa.list_(pa.string()), "label": pa.string(), **kinds})


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: NaiveBayesClassifier("words", "label", []), ArgumentError, "each once"),
        (lambda: NaiveBayesClassifier("words", "label", ["a"], smoothing=0), ArgumentError, "more than 0"),
        (lambda: OPERATOR.bind(schema(words=pa.string()), ("id",)), ColumnError, "list of strings"),
        (lambda: OPERATOR.bind(schema(words=pa.list_(pa.int64())), ("id",)), ColumnError, "list of strings"),
        (lambda: OPERATOR.bind(schema(label=pa.int64()), ("id",)), ColumnError, "another type"),
        (lambda: OPERATOR.bind(schema(predicted=pa.int64()), ("predicted",)), ArgumentError, "name of a key"),
        (lambda: OPERATOR.bind(pa.schema({"id": pa.int64()}), ("id",)), ColumnError, "no column"),
    ],
)
def test_what_cannot_work_is_refused(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_is_a_plain_value_that_knows_its_key() -> None:
    assert repr(OPERATOR) == "NaiveBayesClassifier('words', 'label', ['art', 'law', 'sea'], smoothing=1.0)"
    assert pickle.loads(pickle.dumps(OPERATOR)) == OPERATOR != NaiveBayesClassifier("words", "label", ["art"])
    other = schema(other=pa.int64())
    assert OPERATOR.bind(other, ("id",)) != OPERATOR.bind(other, ("other",))
    assert isinstance(OPERATOR.model(b""), NaiveBayesModel)
