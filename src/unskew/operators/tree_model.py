"""A decision tree as a value: what rows fall into which leaf, what class they have, what messages they send."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from unskew.errors import ArgumentError, ColumnError
from unskew.operators.base import Floats, Numbers, require_column

LEAF = -1
MESSAGE_KEY = ("leaf", "feature", "label")
MESSAGES = pa.schema({"leaf": pa.int32(), "feature": pa.int32(), "label": pa.int32(), "value": pa.float64()})

_ARRAYS = ("feature", "threshold", "left", "right", "depth", "prior", "seen")
_REAL = ("threshold", "prior", "seen")


@dataclass(frozen=True, eq=False)
class DecisionTreeModel:
    """A binary tree over numeric features: rows with ``feature <= threshold`` go left, all others and nulls right.

    `grow` grows it. A leaf's classes are judged by the estimate from when the leaf was made, and by what it has seen
    since. All arrays have one entry or row per node.

    Examples
    --------
    >>> tree = DecisionTreeModel.root(["petal"], ["setosa", "virginica"])
    >>> tree.leaves, tree.classify(pa.table({"petal": [1.0]})).to_pylist()
    (1, ['setosa'])
    >>> DecisionTreeModel.from_json(tree.to_json()).to_json() == tree.to_json()
    True
    """

    features: tuple[str, ...]
    classes: tuple[str | int, ...]
    feature: Numbers  # which feature decides; `LEAF` for a leaf
    threshold: Floats
    left: Numbers
    right: Numbers
    depth: Numbers
    prior: Floats  # rows of each class, estimated when the node was made
    seen: Floats  # rows of each class, counted in the node's histograms

    @classmethod
    def root(cls, features: Sequence[str], classes: Sequence[str | int]) -> DecisionTreeModel:
        """Return a tree of one leaf that knows nothing."""
        if not features or not classes:
            raise ArgumentError("a tree needs features and classes", got=(list(features), list(classes)))
        one, none = np.full(1, LEAF), np.zeros((1, len(classes)))
        return cls(tuple(features), tuple(classes), one, np.zeros(1), one, one, np.zeros(1, np.int64), none, none)

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return int((self.feature == LEAF).sum())

    @property
    def rows(self) -> float:
        """How many labelled rows it has grown from."""
        return float(self.seen.sum())

    def leaf_of(self, rows: pa.Table) -> Numbers:
        """Return the leaf that each row falls into."""
        return _kernel_leaves(self._matrix(rows), self.feature, self.threshold, self.left, self.right)

    def classify(self, rows: pa.Table) -> pa.Array:
        """Return the most frequent class of each row's leaf, the first of equal ones."""
        likeliest = (self.prior + self.seen).argmax(axis=1)
        return pa.array(self.classes).take(pa.array(likeliest[self.leaf_of(rows)]))

    def messages(self, rows: pa.Table, label: str) -> pa.Table:
        """Return one message for each row and feature: leaf, feature, number of the class, value.

        Null and NaN values, and rows whose label is no class of the tree, send none.
        """
        require_column(rows.schema, label)
        labels = rows.column(label).combine_chunks()
        places = pc.fill_null(pc.index_in(labels, pa.array(self.classes, labels.type)), -1).to_numpy()
        matrix, width = self._matrix(rows), len(self.features)
        sent = (~np.isnan(matrix) & (places >= 0)[:, np.newaxis]).ravel()
        columns = [
            np.repeat(self.leaf_of(rows), width),
            np.tile(np.arange(width), rows.num_rows),
            np.repeat(places, width),
            matrix.ravel(),
        ]
        arrays = [pa.array(column[sent], field.type) for column, field in zip(columns, MESSAGES, strict=True)]
        return pa.Table.from_arrays(arrays, schema=MESSAGES)

    def to_json(self) -> str:
        """Return the tree as text, exact to the last bit."""
        values = {name: getattr(self, name).tolist() for name in _ARRAYS}
        return json.dumps({"features": list(self.features), "classes": list(self.classes), **values})

    @classmethod
    def from_json(cls, text: str) -> DecisionTreeModel:
        """Read what `to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        kinds = {name: np.float64 if name in _REAL else np.int64 for name in _ARRAYS}
        arrays: dict[str, Any] = {name: np.array(values[name], kind) for name, kind in kinds.items()}
        return cls(tuple(values["features"]), tuple(values["classes"]), **arrays)

    def _matrix(self, rows: pa.Table) -> Floats:
        matrix = np.empty((rows.num_rows, len(self.features)))
        for place, name in enumerate(self.features):
            column = rows.column(require_column(rows.schema, name).name)
            try:
                matrix[:, place] = pc.fill_null(column.cast(pa.float64(), safe=False), np.nan).to_numpy()
            except pa.ArrowNotImplementedError:
                where = f"column {name!r}"
                raise ColumnError("a feature must be a number", where=where, got=str(column.type)) from None
        return matrix


@njit(cache=True)
def _kernel_leaves(matrix: Floats, feature: Numbers, threshold: Floats, left: Numbers, right: Numbers) -> Numbers:
    leaves = np.zeros(len(matrix), np.int64)
    for row in range(len(matrix)):
        node = 0
        while feature[node] != LEAF:
            node = left[node] if matrix[row, feature[node]] <= threshold[node] else right[node]
        leaves[row] = node
    return leaves
