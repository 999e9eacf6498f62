"""How a decision tree grows from histograms, round by round: the streaming parallel decision tree."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numba import njit

from unskew.errors import require_fields
from unskew.operators.base import Floats, Numbers
from unskew.operators.histogram import CENTRES, COUNTS, kernel_shrink, kernel_sum, kernel_uniform
from unskew.operators.lists import lengths_of, starts_of
from unskew.operators.tree_model import LEAF, MESSAGE_KEY, DecisionTreeModel


@dataclass(frozen=True)
class Growth:
    """How a tree may grow."""

    bins: int = 50  # of each `Histogram`; those that have fewer are exact
    candidates: int = 50  # the most thresholds to try for each feature
    min_rows: int = 100  # rows that a leaf must have seen before it is split
    min_gain: float = 0.005  # how much purer a split must make the leaf's classes (Gini's impurity, from 0 to 1)
    max_depth: int = 12
    max_leaves: int = 64  # if too many leaves could be split, those come first whose splits help most rows

    def __post_init__(self) -> None:
        require_fields(self)


@dataclass(frozen=True, eq=False)
class _Bins:
    """The histograms of one leaf and feature: the bins of all classes, and where each class starts in them."""

    feature: int
    centres: Floats
    counts: Numbers
    starts: Numbers

    @property
    def rows(self) -> Floats:
        return np.diff(starts_of(self.counts)[self.starts]).astype(np.float64)


@dataclass(frozen=True, eq=False)
class _Split:
    leaf: int
    feature: int
    threshold: float
    benefit: float
    left: Floats
    right: Floats


def grow(tree: DecisionTreeModel, histograms: pa.Table, growth: Growth | None = None) -> DecisionTreeModel:
    """Return the tree after a round: leaves that have seen enough are split where that makes them purest.

    `histograms` has the latest row for each leaf, feature and class that had values, as `Histogram` yields them under
    this tree: columns `MESSAGE_KEY`, ``centres`` and ``counts``. Those of nodes that are no leaves any more are passed
    over. Pure and deterministic. O(leaves * features * candidates * classes).

    References
    ----------
    Ben-Haim and Tom-Tov, A streaming parallel decision tree algorithm, JMLR 11, 2010, section 2.2.

    Examples
    --------
    >>> tree = DecisionTreeModel.root(["petal"], ["setosa", "virginica"])
    >>> rows = {"leaf": [0, 0], "feature": [0, 0], "label": [0, 1]}
    >>> bins = {"centres": [[1.0, 2.0], [4.0, 5.0]], "counts": [[40, 10], [30, 20]]}
    >>> tree = grow(tree, pa.table({**rows, **bins}))
    >>> tree.threshold[0], tree.classify(pa.table({"petal": [2.5, 3.5]})).to_pylist()
    (np.float64(3.0), ['setosa', 'virginica'])
    """
    growth = growth or Growth()
    seen, splits = tree.seen.copy(), list[_Split]()
    for leaf, by_feature in _by_leaf(histograms, len(tree.classes)).items():
        if tree.feature[leaf] != LEAF:
            continue
        seen[leaf] = np.max([bins.rows for bins in by_feature], axis=0)  # features with nulls have seen fewer
        if seen[leaf].sum() >= growth.min_rows and tree.depth[leaf] < growth.max_depth:
            split = _best_split(leaf, by_feature, growth)
            splits += [split] if split is not None else []
    chosen = sorted(splits, key=lambda split: (-split.benefit, split.leaf))[: growth.max_leaves - tree.leaves]
    return _with_splits(replace(tree, seen=seen), sorted(chosen, key=lambda split: split.leaf))


def newest(tree: DecisionTreeModel, histograms: pa.Table | None, changed: pa.Table) -> pa.Table:
    """Return the latest histogram of every leaf, feature and class: those that changed, else those known before.

    What belongs to nodes that are no leaves of the tree is forgotten. A batch that comes again changes nothing.
    """
    known = changed if histograms is None else pa.concat_tables([changed, histograms.cast(changed.schema)])
    keys = np.stack([known.column(name).to_numpy() for name in MESSAGE_KEY], axis=1)
    distinct, first = np.unique(keys, axis=0, return_index=True)
    return known.take(pa.array(first[tree.feature[distinct[:, 0]] == LEAF]))


def _by_leaf(histograms: pa.Table, classes: int) -> dict[int, list[_Bins]]:
    """Return the histograms of each leaf, feature by feature."""
    if not histograms.num_rows:
        return {}
    leaf, feature, label = (histograms.column(name).to_numpy().astype(np.int64) for name in MESSAGE_KEY)
    order = np.lexsort((label, feature, leaf))
    centres, counts = (histograms.column(name).take(pa.array(order)).combine_chunks() for name in (CENTRES, COUNTS))
    leaf, feature, label = leaf[order], feature[order], label[order]
    starts = starts_of(lengths_of(centres))
    flat_centres, flat_counts = centres.flatten().to_numpy(), counts.flatten().to_numpy()
    begins = np.flatnonzero(np.diff(leaf, prepend=-1) | np.diff(feature, prepend=-1))
    found: dict[int, list[_Bins]] = {}
    for first, last in zip(begins, np.append(begins[1:], len(leaf)), strict=True):
        inside = starts[first + np.searchsorted(label[first:last], np.arange(classes + 1))]
        block = slice(int(inside[0]), int(inside[-1]))
        bins = _Bins(int(feature[first]), flat_centres[block], flat_counts[block], inside - inside[0])
        found.setdefault(int(leaf[first]), []).append(bins)
    return found


def _best_split(leaf: int, by_feature: list[_Bins], growth: Growth) -> _Split | None:
    best: _Split | None = None
    for bins in by_feature:
        given = bins.centres, bins.counts, bins.starts, growth.bins, growth.candidates
        gain, threshold, left = _kernel_best_threshold(*given)
        benefit = gain * bins.rows.sum()
        if gain >= growth.min_gain and (best is None or benefit > best.benefit):
            best = _Split(leaf, bins.feature, threshold, benefit, left, bins.rows - left)
    return best


def _with_splits(tree: DecisionTreeModel, splits: list[_Split]) -> DecisionTreeModel:
    nodes, added = len(tree.feature), 2 * len(splits)
    feature, threshold, left, right = tree.feature.copy(), tree.threshold.copy(), tree.left.copy(), tree.right.copy()
    for number, split in enumerate(splits):
        feature[split.leaf], threshold[split.leaf] = split.feature, split.threshold
        left[split.leaf], right[split.leaf] = nodes + 2 * number, nodes + 2 * number + 1
    new, depth = np.full(added, LEAF), np.repeat(tree.depth[[split.leaf for split in splits]] + 1, 2)
    priors = [side for split in splits for side in (split.left, split.right)]
    return replace(
        tree,
        feature=np.append(feature, new),
        threshold=np.append(threshold, np.zeros(added)),
        left=np.append(left, new),
        right=np.append(right, new),
        depth=np.append(tree.depth, depth),
        prior=np.concatenate([tree.prior, *(prior[np.newaxis] for prior in priors)]),
        seen=np.concatenate([tree.seen, np.zeros((added, len(tree.classes)))]),
    )


@njit(cache=True)
def _kernel_best_threshold(
    centres: Floats, counts: Numbers, starts: Numbers, bins: int, candidates: int
) -> tuple[float, float, Floats]:
    """Return the greatest gain in purity that a threshold gives, the threshold, and each class's rows below it."""
    classes = len(starts) - 1
    total = np.empty(classes)
    for c in range(classes):
        total[c] = counts[starts[c] : starts[c + 1]].sum()
    rows = total.sum()
    best_gain, best_threshold, best_left = -1.0, 0.0, np.zeros(classes)
    left = np.empty(classes)
    for threshold in _kernel_candidates(centres, counts, bins, candidates):
        for c in range(classes):
            part = slice(starts[c], starts[c + 1])
            left[c] = kernel_sum(centres[part], counts[part], threshold, starts[c + 1] - starts[c] < bins)
        below = left.sum()
        if below < 1 or rows - below < 1:
            continue
        # Gini's impurity before, less that of both sides weighted by their rows
        gain = ((left**2).sum() / below + ((total - left) ** 2).sum() / (rows - below) - (total**2).sum() / rows) / rows
        if gain > best_gain:
            best_gain, best_threshold, best_left = gain, threshold, left.copy()
    return best_gain, best_threshold, best_left


@njit(cache=True)
def _kernel_candidates(centres: Floats, counts: Numbers, bins: int, candidates: int) -> Floats:
    """Return the thresholds to try: between all values if they are few, else at places that part them evenly."""
    order = np.argsort(centres, kind="mergesort")
    values, weights = centres[order], counts[order]
    used = 0
    for i in range(len(values)):
        if used and values[used - 1] == values[i]:
            weights[used - 1] += weights[i]
        else:
            values[used], weights[used] = values[i], weights[i]
            used += 1
    if used <= candidates + 1:
        return (values[: used - 1] + values[1:used]) / 2
    used = kernel_shrink(values, weights, used, max(bins, 2))
    return kernel_uniform(values[:used], weights[:used], candidates + 1)
