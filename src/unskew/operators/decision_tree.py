"""The streaming parallel decision tree as one operator: a round per batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
from pyarrow import types

from unskew.errors import ArgumentError, require_list
from unskew.operators.base import require_column
from unskew.operators.histogram import Histogram
from unskew.operators.learner import MergingLearner, from_bytes, to_bytes
from unskew.operators.tree_growth import Growth, grow, newest
from unskew.operators.tree_model import MESSAGE_KEY, MESSAGES, DecisionTreeModel

_TREE = b"unskew.tree"


class DecisionTree(MergingLearner):
    """Grows a decision tree from a stream of labelled rows; the stream's key is the column of the label.

    Each batch is a round. Where rows are read, each becomes one message per feature: leaf of the current tree, feature,
    class, value. Channels keep a histogram for each leaf, feature and class, in parts where keys are split. The driver
    grows the tree from these histograms and sends it to all readers for the next batch. A tree depends on the rows of
    each round; not on channels, moves or failures, as long as no key is split. With split keys, full histograms differ
    as if the rows had come in another order.

    Yields one row per batch: ``leaves``, ``rows`` (labelled rows that it has grown from) and ``model``, which
    `DecisionTreeModel.from_json` reads.

    Costs O(bins) per row and feature. The driver holds leaves * features * classes histograms, and writes them to
    the record of every batch.

    Parameters
    ----------
    features
        Columns of numbers.
    classes
        The values of the label; rows with others are passed over.
    bins
        Bins of each histogram.
    candidates
        The most thresholds to try for each feature; by default as many as bins.
    min_rows, min_gain, max_depth, max_leaves
        See `Growth`.

    References
    ----------
    Ben-Haim and Tom-Tov, A streaming parallel decision tree algorithm, JMLR 11, 2010.
    Nasir et al., Partial Key Grouping, section 4.4.

    Examples
    --------
    >>> from unskew.testing import run
    >>> flowers = pa.table({"petal": [1.4, 1.3, 1.5, 4.7, 4.5, 5.1], "kind": ["setosa"] * 3 + ["virginica"] * 3})
    >>> operator = DecisionTree(["petal"], ["setosa", "virginica"], min_rows=6)
    >>> rounds = run(operator, [flowers, flowers], key="kind").outputs
    >>> [(row["leaves"], row["rows"]) for output in rounds for row in output.to_pylist()]
    [(2, 6), (2, 12)]
    >>> model = DecisionTreeModel.from_json(rounds[-1]["model"][0].as_py())
    >>> model.classify(pa.table({"petal": [2.0, 6.0]})).to_pylist()
    ['setosa', 'virginica']
    """

    memory = "constant"
    output_key = ()  # a tree replaces the one before
    result_schema = pa.schema({"leaves": pa.int32(), "rows": pa.int64(), "model": pa.string()})

    def __init__(
        self,
        features: Sequence[str],
        classes: Sequence[str | int],
        *,
        bins: int = 50,
        candidates: int | None = None,
        min_rows: int = 100,
        min_gain: float = 0.005,
        max_depth: int = 12,
        max_leaves: int = 64,
    ) -> None:
        self.features, self.classes = require_list("features", features), require_list("classes", classes)
        self.growth = Growth(bins, candidates or bins, min_rows, min_gain, max_depth, max_leaves)
        self.channel_operator = Histogram("value", bins=bins).bind(MESSAGES, MESSAGE_KEY)
        DecisionTreeModel.root(self.features, self.classes)  # raises if there is none

    def __repr__(self) -> str:
        label = f", label={self.stream_key[0]!r}" if self.stream_key else ""
        return f"DecisionTree({list(self.features)}, {list(self.classes)}, {self.growth}{label})"

    @property
    def columns_needed(self) -> tuple[str, ...]:
        return self.features

    def own_input(self) -> tuple[pa.Schema, tuple[str, ...]]:
        if len(self.stream_key) != 1:
            hint = "name one column: balance(rows, 'label')"
            raise ArgumentError("a tree's key is the label", got=self.stream_key, hint=hint)
        require_column(self.stream_schema, self.stream_key[0], _is_label, "a label is a name or a whole number")
        for name in self.features:
            require_column(self.stream_schema, name, _is_feature, "a feature must be a number")
        return MESSAGES, MESSAGE_KEY

    def expand(self, rows: pa.Table) -> pa.Table:
        return self._tree(self.lesson).messages(rows, self.stream_key[0])

    def learn(self, learned: bytes, output: pa.Table) -> bytes:
        """Let the tree grow; keep the histograms of its leaves, of which a batch has changed some."""
        before = from_bytes(learned).replace_schema_metadata() if learned else None
        tree = self._tree(self.lesson_of(learned))
        known = newest(tree, before, output.cast(self.output_schema))
        grown = grow(tree, known, self.growth)
        left = newest(grown, None, known)
        return to_bytes(left.replace_schema_metadata({_TREE: grown.to_json().encode()}))

    def lesson_of(self, learned: bytes) -> bytes:
        return pa.ipc.open_stream(learned).schema.metadata[_TREE] if learned else b""

    def result(self, learned: bytes, output: pa.Table) -> pa.Table:
        tree = self._tree(self.lesson_of(learned))
        row = {"leaves": tree.leaves, "rows": round(tree.rows), "model": tree.to_json()}
        return pa.Table.from_pylist([row], schema=self.result_schema)

    def _tree(self, lesson: bytes) -> DecisionTreeModel:
        return _read_tree(lesson) if lesson else DecisionTreeModel.root(self.features, self.classes)


def _is_label(kind: pa.DataType) -> bool:
    return not types.is_floating(kind)


def _is_feature(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean))


@lru_cache(maxsize=4)
def _read_tree(lesson: bytes) -> DecisionTreeModel:
    return DecisionTreeModel.from_json(lesson.decode())
