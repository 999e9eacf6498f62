"""The streaming tree: splits worked by hand, and the accuracy of trees grown in one process and by scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.tree import DecisionTreeClassifier

from unskew.errors import ArgumentError, ColumnError
from unskew.hashing import hash_keys
from unskew.operators import Clock, DecisionTree, DecisionTreeModel, Growth, Histogram, grow
from unskew.operators.histogram import kernel_insert
from unskew.operators.tree_growth import newest
from unskew.operators.tree_model import LEAF, MESSAGE_KEY, MESSAGES
from unskew.splitters import splitter
from unskew.state import KeyedState, MemoryStore, group_rows
from unskew.testing import ABORT, MOVE_SLOT, RESTART, check_operator, run
from unskew.workloads.flights import flights_file

BINS = 50
OPERATOR = Histogram("value", bins=BINS).bind(MESSAGES, MESSAGE_KEY)

Histograms = dict[tuple[int, int, int], tuple[list[float], list[int]]]
Round = Callable[[pa.Table], Histograms]


def as_table(histograms: Histograms) -> pa.Table:
    keys = np.array(list(histograms), np.int32).reshape(-1, 3)
    columns = {name: keys[:, place] for place, name in enumerate(MESSAGE_KEY)}
    centres = pa.array([centres for centres, _ in histograms.values()], pa.list_(pa.float64()))
    return pa.table({**columns, "centres": centres, "counts": [counts for _, counts in histograms.values()]})


def as_histograms(table: pa.Table) -> Histograms:
    return {
        tuple(row[name] for name in MESSAGE_KEY): (row["centres"], row["counts"])  # type: ignore[misc]
        for row in table.to_pylist()
    }


class OneProcess:
    """Every message goes into its histogram, one after the other."""

    def __init__(self) -> None:
        self.held: dict[Any, tuple[Any, Any, int]] = {}

    def __call__(self, messages: pa.Table) -> Histograms:
        for *key, value in zip(*(messages[name].to_pylist() for name in MESSAGES.names), strict=True):
            centres, counts, used = self.held.get(tuple(key), (np.empty(BINS + 1), np.empty(BINS + 1, np.int64), 0))
            self.held[tuple(key)] = centres, counts, kernel_insert(centres, counts, used, value, BINS)
        return {key: (c[:used].tolist(), n[:used].tolist()) for key, (c, n, used) in self.held.items()}


class Channels:
    """Key grouping on three channels; a round takes four batches, and keys move before each of them."""

    def __init__(self) -> None:
        schemas = OPERATOR.key_schema, OPERATOR.value_schema
        self.states = [KeyedState.open(MemoryStore(), *schemas, slots=64) for _ in range(3)]
        self.random = np.random.default_rng(0)
        self.owners: dict[int, int] = {}
        self.latest: Histograms = {}
        self.moved = 0

    def __call__(self, messages: pa.Table) -> Histograms:
        quarter = -(-messages.num_rows // 4)
        for at in range(0, messages.num_rows, quarter):
            self.batch(messages.slice(at, quarter))
        return self.latest

    def batch(self, messages: pa.Table) -> None:
        hashes = hash_keys(messages, MESSAGE_KEY)
        for key in self.random.choice(hashes, 20).tolist():
            source, target = self.owners.get(key, key % 3), int(self.random.integers(3))
            rows = self.states[source].extract([key])
            self.states[target].install(rows)
            self.owners[key] = target
            self.moved += rows.num_rows
        owner = np.array([self.owners.get(key, key % 3) for key in hashes.tolist()])
        for channel, state in enumerate(self.states):
            rows, mine = messages.filter(pa.array(owner == channel)), hashes[owner == channel]
            combined, groups = OPERATOR.combine(rows, state.group(rows, mine))
            self.latest |= as_histograms(OPERATOR.update(state, groups, combined, Clock(0, 0)))


class SplitKeys:
    """Partial key grouping on five workers: two partial histograms per key, merged for every round."""

    def __init__(self) -> None:
        self.parts: list[pa.Table] = []

    def __call__(self, messages: pa.Table) -> Histograms:
        workers = splitter("pkg").route(hash_keys(messages, MESSAGE_KEY), np.zeros(5)).channels
        for worker in range(5):
            rows = messages.filter(pa.array(workers == worker))
            self.parts.append(OPERATOR.combine(rows, group_rows(rows, hash_keys(rows, MESSAGE_KEY), MESSAGE_KEY))[0])
        both = pa.concat_tables(self.parts).combine_chunks()
        groups = group_rows(both, hash_keys(both, MESSAGE_KEY), MESSAGE_KEY)
        merged = OPERATOR.merge(both.select(["centres", "counts"]), groups)
        self.parts = [OPERATOR.finish(groups.keys, merged)]
        return as_histograms(self.parts[0])


class Data:
    """Half to learn from, over and over; half to be asked about."""

    def __init__(self, load: Callable[[], Any]) -> None:
        loaded = load()
        order = np.random.default_rng(1).permutation(len(loaded.target))
        self.features = [f"f{place}" for place in range(loaded.data.shape[1])]
        self.classes = sorted(set(loaded.target.tolist()))
        self.values, self.labels = loaded.data[order].astype(float), loaded.target[order]
        self.half = len(order) // 2

    def rows(self, part: slice) -> pa.Table:
        columns = {name: self.values[part, place] for place, name in enumerate(self.features)}
        return pa.table({**columns, "label": self.labels[part]})

    def grown(self, one_round: Round, growth: Growth, rounds: int) -> DecisionTreeModel:
        tree = DecisionTreeModel.root(self.features, self.classes)
        for _ in range(rounds):
            tree = grow(tree, as_table(one_round(tree.messages(self.rows(slice(0, self.half)), "label"))), growth)
        return tree

    def accuracy(self, classes: Any) -> float:
        return float(np.mean(np.asarray(classes) == self.labels[self.half :]))

    def accuracy_of(self, tree: DecisionTreeModel) -> float:
        return self.accuracy(tree.classify(self.rows(slice(self.half, None))))

    def accuracy_of_scikit_learn(self, **limits: Any) -> float:
        model = DecisionTreeClassifier(**limits, random_state=0)
        model.fit(self.values[: self.half], self.labels[: self.half])
        return self.accuracy(model.predict(self.values[self.half :]))


@cache
def cancer() -> tuple[Data, DecisionTreeModel]:
    data = Data(load_breast_cancer)
    return data, data.grown(OneProcess(), CANCER, 4)


CANCER = Growth(bins=BINS, min_rows=40, max_leaves=16)


def test_one_process_is_as_accurate_as_scikit_learn() -> None:
    data, tree = cancer()
    assert 4 <= tree.leaves <= 16
    assert data.accuracy_of(tree) >= data.accuracy_of_scikit_learn(max_leaf_nodes=tree.leaves) - 0.01
    most_frequent = np.bincount(data.labels[data.half :]).max() / (len(data.labels) - data.half)
    assert data.accuracy_of(tree) > most_frequent + 0.2


def test_accuracy_is_that_of_one_process_while_keys_move() -> None:
    (data, alone), channels = cancer(), Channels()
    tree = data.grown(channels, CANCER, 4)
    assert channels.moved > 100
    assert data.accuracy_of(tree) == pytest.approx(data.accuracy_of(alone), abs=0.01)


def test_accuracy_is_that_of_one_process_with_split_keys() -> None:
    data, alone = cancer()
    assert data.accuracy_of(data.grown(SplitKeys(), CANCER, 4)) == pytest.approx(data.accuracy_of(alone), abs=0.01)


@pytest.mark.slow
def test_digits_have_few_values_so_that_all_trees_are_the_same() -> None:
    """Pixels are 0 to 16: no histogram is ever full, all are exact, and nothing depends on where they are kept."""
    data, growth = Data(load_digits), Growth(bins=BINS, min_rows=20, max_leaves=40)
    trees = [data.grown(how, growth, 7) for how in (OneProcess(), Channels(), SplitKeys())]
    assert trees[0].to_json() == trees[1].to_json() == trees[2].to_json()
    theirs = data.accuracy_of_scikit_learn(max_depth=trees[0].depth.max(), min_samples_split=growth.min_rows)
    assert data.accuracy_of(trees[0]) >= theirs - 0.01


@pytest.mark.slow
def test_late_flights_are_told_as_well_as_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delays have a long tail, on which closest bins are slow to become one: it takes more bins."""
    bins = 128
    monkeypatch.setattr(f"{__name__}.BINS", bins)
    monkeypatch.setattr(f"{__name__}.OPERATOR", Histogram("value", bins=bins).bind(MESSAGES, MESSAGE_KEY))
    growth = Growth(bins=bins, candidates=bins, min_rows=200, max_leaves=32, min_gain=0.002)
    data = Data(load_flights)
    alone, *others = (data.accuracy_of(data.grown(how, growth, 5)) for how in (OneProcess(), Channels(), SplitKeys()))
    assert alone >= data.accuracy_of_scikit_learn(max_leaf_nodes=32) - 0.01
    assert all(other >= alone - 0.01 for other in others)


def load_flights() -> Any:
    columns = ["dep_delay", "distance", "hour", "month", "dep_time", "air_time"]
    flights = pd.read_csv(flights_file(), usecols=[*columns, "arr_delay"]).dropna().sample(30_000, random_state=0)
    return SimpleNamespace(data=flights[columns].to_numpy(), target=(flights["arr_delay"] > 0).to_numpy().astype(int))


def bins(*rows: tuple[int, int, int, list[float], list[int]]) -> pa.Table:
    return as_table({(leaf, feature, label): (centres, counts) for leaf, feature, label, centres, counts in rows})


GROWTH = Growth(min_rows=10)


def test_the_feature_that_parts_the_classes_best_is_chosen() -> None:
    tree = DecisionTreeModel.root(["noise", "sign"], ["a", "b"])
    tree = grow(
        tree,
        bins(
            (0, 0, 0, [1.0, 2.0], [10, 10]),
            (0, 0, 1, [1.0, 2.0], [5, 5]),
            (0, 1, 0, [-3.0, -1.0], [15, 5]),
            (0, 1, 1, [1.0, 2.0], [8, 2]),
        ),
        GROWTH,
    )
    assert tree.feature.tolist() == [1, LEAF, LEAF]
    assert tree.threshold[0] == 0.0
    assert tree.prior.tolist()[1:] == [[20.0, 0.0], [0.0, 10.0]]
    assert tree.seen.tolist() == [[20.0, 10.0], [0.0, 0.0], [0.0, 0.0]]
    assert tree.leaf_of(pa.table({"noise": [1.0] * 4, "sign": [-1.0, 0.0, 0.5, None]})).tolist() == [1, 1, 2, 2]
    assert tree.classify(pa.table({"noise": [0.0], "sign": [9.0]})).to_pylist() == ["b"]
    assert DecisionTreeModel.from_json(tree.to_json()).to_json() == tree.to_json()


@pytest.mark.parametrize(
    "growth",
    [Growth(min_rows=31), Growth(min_rows=1, max_leaves=1), Growth(min_rows=1, max_depth=0), Growth(1, min_gain=0.9)],
)
def test_limits_hold(growth: Growth) -> None:
    tree = DecisionTreeModel.root(["sign"], ["a", "b"])
    after = grow(tree, bins((0, 0, 0, [-1.0], [20]), (0, 0, 1, [1.0], [10])), growth)
    assert after.leaves == 1
    assert after.seen.tolist() == [[20.0, 10.0]]


def test_what_is_pure_or_has_one_value_stays_a_leaf_and_old_nodes_are_passed_over() -> None:
    tree = DecisionTreeModel.root(["sign"], ["a", "b"])
    assert grow(tree, bins((0, 0, 0, [-1.0, 1.0], [20, 20])), GROWTH).leaves == 1
    assert grow(tree, bins((0, 0, 0, [1.0], [20]), (0, 0, 1, [1.0], [20])), GROWTH).leaves == 1
    once = grow(tree, bins((0, 0, 0, [-1.0], [20]), (0, 0, 1, [1.0], [10])), GROWTH)
    again = grow(once, bins((0, 0, 0, [-1.0], [20]), (0, 0, 1, [1.0], [10])), GROWTH)
    assert again.to_json() == once.to_json()


def test_the_newest_histograms_of_leaves_are_kept() -> None:
    tree = DecisionTreeModel.root(["sign"], ["a", "b"])
    before = bins((0, 0, 0, [-1.0], [20]), (0, 0, 1, [1.0], [10]))
    after = newest(tree, before, bins((0, 0, 1, [1.0], [15])))
    assert as_histograms(after) == {(0, 0, 0): ([-1.0], [20]), (0, 0, 1): ([1.0], [15])}
    assert newest(tree, after, bins((0, 0, 1, [1.0], [15]))).equals(after)
    grown = grow(tree, after, GROWTH)
    assert as_histograms(newest(grown, after, bins((2, 0, 1, [3.0], [1])))) == {(2, 0, 1): ([3.0], [1])}


def test_messages_leave_out_nulls_and_strangers() -> None:
    tree = DecisionTreeModel.root(["x", "y"], ["a", "b"])
    rows = pa.table({"x": pa.array([1, None, 3, 4]), "y": [0.5, 1.5, float("nan"), 3.5], "c": ["b", "a", "b", "z"]})
    assert tree.messages(rows, "c").to_pylist() == [
        {"leaf": 0, "feature": 0, "label": 1, "value": 1.0},
        {"leaf": 0, "feature": 1, "label": 1, "value": 0.5},
        {"leaf": 0, "feature": 1, "label": 0, "value": 1.5},
        {"leaf": 0, "feature": 0, "label": 1, "value": 3.0},
    ]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: DecisionTreeModel.root([], ["a"]), ArgumentError, "needs features and classes"),
        (lambda: DecisionTreeModel.root(["x"], ["a"]).leaf_of(pa.table({"y": [1]})), ColumnError, "no column"),
        (lambda: DecisionTreeModel.root(["x"], ["a"]).leaf_of(pa.table({"x": [[1]]})), ColumnError, "must be a number"),
        (lambda: DecisionTreeModel.root(["x"], ["a"]).messages(pa.table({"x": [1]}), "c"), ColumnError, "no column"),
    ],
)
def test_what_cannot_work_is_refused(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def rounds_of(data: Data, rounds: int = 4) -> list[pa.Table]:
    return [data.rows(slice(0, data.half))] * rounds


def tree_operator(data: Data, growth: Growth = CANCER) -> DecisionTree:
    limits = {"min_rows": growth.min_rows, "max_leaves": growth.max_leaves}
    return DecisionTree(data.features, data.classes, bins=growth.bins, **limits)


def test_the_operator_grows_the_tree_of_one_process() -> None:
    data, alone = cancer()
    outputs = run(tree_operator(data), rounds_of(data), key="label").outputs
    models = [DecisionTreeModel.from_json(output["model"][0].as_py()) for output in outputs]
    assert [model.rows for model in models] == [data.half * number for number in (1, 2, 3, 4)]
    assert [output["leaves"][0].as_py() for output in outputs] == [model.leaves for model in models]
    assert data.accuracy_of(models[-1]) == pytest.approx(data.accuracy_of(alone), abs=0.01)


def test_the_operator_grows_the_same_tree_whatever_happens_between_rounds() -> None:
    """Of few values histograms are exact, and do not depend on where rows are combined."""
    data, steps = Data(load_breast_cancer), list[Any]()
    data.values = np.floor(data.values / data.values.max(axis=0) * 20)
    for number, rows in enumerate(rounds_of(data)):
        moves = [MOVE_SLOT(slot, (slot + number) % 3) for slot in range(0, 64, 2)]
        steps += [*moves, ABORT(), *([RESTART()] if number == 2 else []), rows]
    calm = run(tree_operator(data), rounds_of(data), key="label")
    rough = run(tree_operator(data), steps, key="label", channels=3, seed=5)
    assert rough.outputs[-1]["leaves"][0].as_py() >= 4
    assert rough.attempts == 8
    assert rough == calm


def test_what_the_runtime_relies_on_holds() -> None:
    random = np.random.default_rng(2)
    batches = [
        pa.table(
            {
                "x": pa.array(random.integers(0, 9, 120), mask=random.random(120) < 0.1),
                "y": random.integers(0, 5, 120).astype(float),
                "kind": pa.array(random.choice(["a", "b", "z"], 120), mask=random.random(120) < 0.05),
            }
        )
        for _ in range(4)
    ]
    check_operator(DecisionTree(["x", "y"], ["a", "b"], min_rows=30, min_gain=0.0, max_leaves=6), batches, key="kind")


def test_a_round_without_known_labels_teaches_nothing() -> None:
    rows = pa.table({"x": [1.0, 2.0, 8.0, 9.0] * 9, "kind": ["a", "a", "b", "b"] * 9})
    strange = rows.set_column(1, "kind", pa.array(["?"] * 36))
    outputs = run(DecisionTree(["x"], ["a", "b"], min_rows=10), [strange, rows, strange], key="kind").outputs
    assert [(row["leaves"], row["rows"]) for output in outputs for row in output.to_pylist()] == [
        (1, 0),
        (2, 36),
        (2, 36),
    ]


@pytest.mark.parametrize(
    ("schema", "key", "error", "words"),
    [
        ({"x": pa.float64(), "c": pa.string()}, ("c", "x"), ArgumentError, "key is the label"),
        ({"x": pa.string(), "c": pa.string()}, ("c",), ColumnError, "must be a number"),
        ({"y": pa.float64(), "c": pa.string()}, ("c",), ColumnError, "no column"),
        ({"x": pa.float64(), "c": pa.float64()}, ("c",), ColumnError, "a label is"),
    ],
)
def test_a_tree_that_cannot_grow_is_refused(schema: Any, key: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        DecisionTree(["x"], ["a", "b"]).bind(pa.schema(schema), key)


def test_operators_that_print_alike_are_equal() -> None:
    one, other = (DecisionTree(["x"], ["a", "b"], max_leaves=leaves) for leaves in (8, 9))
    assert one == DecisionTree(["x"], ["a", "b"], max_leaves=8)
    assert one != other
    schema = pa.schema({"x": pa.float64(), "c": pa.string(), "d": pa.string()})
    assert one.bind(schema, ("c",)) != one.bind(schema, ("d",))
