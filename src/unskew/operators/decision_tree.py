"""The streaming parallel decision tree as one operator: a round per batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
from pyarrow import types

from unskew.errors import ArgumentError, ColumnError
from unskew.operators.base import Mergeable, require_column
from unskew.operators.histogram import Histogram
from unskew.operators.learner import Learner, to_bytes
from unskew.operators.tree_growth import Growth, grow, newest
from unskew.operators.tree_model import MESSAGE_KEY, MESSAGES, DecisionTreeModel
from unskew.state.groups import Groups

_TREE = b"unskew.tree"


class DecisionTree(Learner, Mergeable):
    """Grows a decision tree from a stream of labelled rows; the stream's key is the column of the label.

    Each batch is a round. Where rows are read, each becomes a message (leaf, feature, class, value) per feature under
    the tree as it stands; channels keep a histogram for each leaf, feature and class, in parts where keys are split;
    from these the tree grows in one place, and goes back to all readers with the decision for the next batch. A tree
    depends on the rows of each round; not on channels, moves or failures, as long as no key is split. Split, it differs
    where histograms are full: as if rows had come in another order.

    Yields one row per batch: ``leaves``, ``rows`` (labelled rows that it has grown from) and ``model``, which
    `DecisionTreeModel.from_json` reads.

    Costs O(bins) per row and feature; one place holds leaves * features * classes histograms, which are also written to
    the control log with every batch.

    Parameters
    ----------
    features
        Columns of numbers.
    classes
        The values of the label; rows with others are passed over.
    bins
        Bins of each histogram.
    candidates
        Thresholds that are tried for each feature, at most; as many as there are bins where not given.
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
        self.features, self.classes = tuple(features), tuple(classes)
        self.growth = Growth(bins, candidates or bins, min_rows, min_gain, max_depth, max_leaves)
        self._histogram = Histogram("value", bins=bins).bind(MESSAGES, MESSAGE_KEY)
        DecisionTreeModel.root(self.features, self.classes)  # raises if there is none

    def __repr__(self) -> str:
        label = "" if self.label is None else f", label={self.label!r}"
        return f"DecisionTree({list(self.features)}, {list(self.classes)}, {self.growth}{label})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DecisionTree) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def label(self) -> str | None:
        """The column of the label; None until the operator is bound."""
        return self.stream_key[0] if self.stream_key else None

    @property
    def columns_needed(self) -> tuple[str, ...]:
        """The features."""
        return self.features

    def own_input(self) -> tuple[pa.Schema, tuple[str, ...]]:
        """Return the schema and key of messages. Refuse a label or feature of the wrong type."""
        if len(self.stream_key) != 1:
            hint = "name one column: balance(rows, 'label')"
            raise ArgumentError("a tree's key is the label", got=self.stream_key, hint=hint)
        label = require_column(self.stream_schema, self.stream_key[0])
        if types.is_floating(label.type):
            where = f"column {label.name!r}"
            raise ColumnError("a label is a name or a whole number", where=where, got=str(label.type))
        for name in self.features:
            kind = require_column(self.stream_schema, name).type
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
                raise ColumnError("a feature must be a number", where=f"column {name!r}", got=str(kind))
        return MESSAGES, MESSAGE_KEY

    @property
    def value_schema(self) -> pa.Schema:
        """A histogram."""
        return self._histogram.value_schema

    @property
    def output_schema(self) -> pa.Schema:
        """Leaf, feature, class, and the histogram."""
        return self._histogram.output_schema

    @property
    def output_key(self) -> tuple[str, ...]:
        """None: a tree replaces the one before."""
        return ()

    @property
    def result_schema(self) -> pa.Schema:
        """How large the tree is, what it has seen, and the tree."""
        return pa.schema({"leaves": pa.int32(), "rows": pa.int64(), "model": pa.string()})

    def expand(self, rows: pa.Table) -> pa.Table:
        """Return one message for each row and feature."""
        assert self.label is not None
        return self._tree(self.lesson).messages(rows, self.label)

    def lift(self, rows: pa.Table, groups: Groups) -> pa.Table:
        """Make a histogram of each group."""
        return self._histogram.lift(rows, groups)

    def merge(self, values: pa.Table, groups: Groups) -> pa.Table:
        """Make one histogram of several."""
        return self._histogram.merge(values, groups)

    def finish(self, keys: pa.Table, values: pa.Table) -> pa.Table:
        """Return keys and histograms."""
        return self._histogram.finish(keys, values)

    def learn(self, learned: bytes, output: pa.Table) -> bytes:
        """Let the tree grow; keep the histograms of its leaves, of which a batch has changed some."""
        before, output = self._histograms(learned), output.cast(self.output_schema)
        tree = self._tree(self.lesson_of(learned))
        known = newest(tree, before, output)
        grown = grow(tree, known, self.growth)
        left = newest(grown, None, known)
        metadata = {_TREE: grown.to_json().encode()}
        return to_bytes(left.replace_schema_metadata(metadata))

    def lesson_of(self, learned: bytes) -> bytes:
        """Return the tree."""
        return pa.ipc.open_stream(learned).schema.metadata[_TREE] if learned else b""

    def result(self, learned: bytes, output: pa.Table) -> pa.Table:
        """Return the tree as one row."""
        tree = self._tree(self.lesson_of(learned))
        row = {"leaves": tree.leaves, "rows": round(tree.rows), "model": tree.to_json()}
        return pa.Table.from_pylist([row], schema=self.result_schema)

    def _histograms(self, learned: bytes) -> pa.Table | None:
        return pa.ipc.open_stream(learned).read_all().replace_schema_metadata() if learned else None

    def _tree(self, lesson: bytes) -> DecisionTreeModel:
        return _read_tree(lesson) if lesson else DecisionTreeModel.root(self.features, self.classes)


@lru_cache(maxsize=4)
def _read_tree(lesson: bytes) -> DecisionTreeModel:
    return DecisionTreeModel.from_json(lesson.decode())
