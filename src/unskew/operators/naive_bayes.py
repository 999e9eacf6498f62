"""Naive Bayes on a stream of labelled documents: counts of words per class, and a classifier made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray
from pyarrow import types

from unskew.errors import ArgumentError, ColumnError
from unskew.operators.base import Mergeable, require_column
from unskew.operators.lists import lengths_of
from unskew.state.groups import Groups, plain_schema

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]

COUNTS = "counts"


class NaiveBayes(Mergeable):
    """Counts for every word how often it occurs in documents of each class.

    The key is the word: one row for each word of a document, with the document's class, and for each document one row
    more whose word is null, from which follows how frequent the classes are. In Spark::

        words = documents.selectExpr("label", "explode(array_append(split(text, ' '), null)) as word")
        balance(words, "word").apply(NaiveBayes("label", ["ham", "spam"]))

    Each batch yields the new counts of its words, from which `NaiveBayesModel` classifies. Counts are whole numbers, so
    the model is the one that a single process would have, wherever words are counted and whether or not they are split
    or moved. Rows whose class is null or none of `classes` are passed over; their words are kept with no counts.

    Costs O(rows + words * classes) in each batch; keeps one count per word and class.

    Parameters
    ----------
    label
        The column of the class.
    classes
        All classes there are; fixed, so that counts are vectors.

    References
    ----------
    Nasir et al., Partial Key Grouping, section 4.3.

    Examples
    --------
    >>> from unskew.testing import run
    >>> words = pa.table({"word": ["free", "tea", None, "tea", None], "label": ["spam", "spam", "spam", "ham", "ham"]})
    >>> counts = run(NaiveBayes("label", ["ham", "spam"]), [words], key="word").outputs[0]
    >>> counts.to_pylist()[1:]
    [{'word': 'tea', 'counts': [1, 1]}, {'word': None, 'counts': [1, 1]}]
    >>> NaiveBayesModel(["ham", "spam"]).after(counts).classify([["free", "tea"], ["tea", "time"]]).to_pylist()
    ['spam', 'ham']
    """

    memory = "constant"

    def __init__(self, label: str, classes: Sequence[str | int]) -> None:
        self.label, self.classes = label, tuple(classes)
        if not self.classes or len(set(self.classes)) < len(self.classes):
            raise ArgumentError("classes must be given, each once", got=list(classes))

    def __repr__(self) -> str:
        return f"NaiveBayes({self.label!r}, {list(self.classes)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NaiveBayes) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def check(self) -> None:
        """Refuse a label that does not exist or is of another type than the classes, and keys of several columns."""
        super().check()
        kind = plain_schema(pa.schema([require_column(self.input_schema, self.label)])).field(0).type
        try:
            pa.array(self.classes, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            raise ColumnError(
                "the classes are of another type", where=f"column {self.label!r}", got=str(kind)
            ) from None
        if len(self.key) > 1:
            raise ArgumentError("the key must be the word alone", got=self.key)

    @property
    def columns_needed(self) -> tuple[str, ...]:
        """The label."""
        return (self.label,)

    @property
    def value_schema(self) -> pa.Schema:
        """The number of rows of each class."""
        return pa.schema([pa.field(COUNTS, pa.list_(pa.int64()))])

    @property
    def output_schema(self) -> pa.Schema:
        """The word and its counts, in the order of the classes."""
        return pa.schema([*self.key_schema, *self.value_schema])

    def lift(self, rows: pa.Table, groups: Groups) -> pa.Table:
        """Count the rows of each word and class."""
        labels = rows.column(self.label).combine_chunks()
        if types.is_dictionary(labels.type):
            labels = labels.dictionary_decode()
        places = pc.fill_null(pc.index_in(labels, pa.array(self.classes, labels.type)), -1).to_numpy()
        known = places >= 0
        cells = groups.group_of_row[known] * len(self.classes) + places[known]
        return self._as_lists(np.bincount(cells, minlength=len(groups) * len(self.classes)), len(groups))

    def merge(self, values: pa.Table, groups: Groups) -> pa.Table:
        """Add counts up."""
        counts = values.column(COUNTS).combine_chunks()
        held = np.asarray(counts.is_valid().to_numpy(zero_copy_only=False))
        totals = np.zeros((len(groups), len(self.classes)), np.int64)
        parts = counts.flatten().to_numpy().reshape(-1, len(self.classes))
        _kernel_add_rows(parts, groups.group_of_row[held], totals)
        return self._as_lists(totals.ravel(), len(groups))

    def finish(self, keys: pa.Table, values: pa.Table) -> pa.Table:
        """Return words and counts."""
        return pa.Table.from_arrays([*keys.columns, *values.columns], schema=self.output_schema)

    def _as_lists(self, cells: Numbers, groups: int) -> pa.Table:
        offsets = pa.array(np.arange(groups + 1) * len(self.classes), pa.int32())
        return pa.table([pa.ListArray.from_arrays(offsets, pa.array(cells, pa.int64()))], schema=self.value_schema)


@dataclass(frozen=True, eq=False)
class NaiveBayesModel:
    """Classifies documents by the counts of words: multinomial naive Bayes with additive smoothing.

    The class with the greatest ``log P(class) + sum of log P(word | class)`` over a document's words is chosen, the
    first of equal ones, with ``P(word | class) = (count + smoothing) / (words of class + smoothing * vocabulary)``.
    Words that were never seen are passed over. Until there is a document, all classes are equally likely.

    Costs O(words of the documents * log of the vocabulary); a change of the counts, O(vocabulary * classes).

    Parameters
    ----------
    classes
        In the order of the counts.
    smoothing
        What is added to every count.
    words, counts
        The words seen so far, in order of first appearance, and their counts; `after` fills these.
    documents
        Documents of each class.

    Examples
    --------
    See `NaiveBayes`.
    """

    classes: Sequence[str | int]
    smoothing: float = 1.0
    words: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    counts: Numbers | None = None
    documents: Numbers | None = None

    def after(self, changed: pa.Table) -> NaiveBayesModel:
        """Return the model after a batch: `changed` holds words and their new counts, as `NaiveBayes` yields them.

        A batch that comes again changes nothing.
        """
        words, columns = changed.column(0).combine_chunks(), len(self.classes)
        counts = changed.column(COUNTS).combine_chunks().flatten().to_numpy().reshape(-1, columns)
        is_word = np.asarray(words.is_valid().to_numpy(zero_copy_only=False))
        documents = counts[~is_word][-1] if not is_word.all() else self.documents
        words, counts = words.filter(pa.array(is_word)), counts[is_word]
        words = words.cast(self.words.type) if len(self.words) else words
        known = self.words.cast(words.type)
        places = pc.fill_null(pc.index_in(words, known), -1).to_numpy()
        old = np.zeros((0, columns), np.int64) if self.counts is None else self.counts.copy()
        old[places[places >= 0]] = counts[places >= 0]
        return replace(
            self,
            words=pa.concat_arrays([known, words.filter(pa.array(places < 0))]),
            counts=np.concatenate([old, counts[places < 0]]),
            documents=documents,
        )

    def scores(self, documents: pa.Array | pa.ChunkedArray | Sequence[Sequence[str]]) -> Floats:
        """Return ``log P(class) + sum of log P(word | class)`` of each document, lists of words, and class."""
        lists = _one_array(documents)
        lengths = lengths_of(lists)
        scores: Floats = np.tile(self._log_priors(), (len(lists), 1))
        if self.counts is None or not len(self.words):
            return scores
        places = pc.fill_null(pc.index_in(lists.flatten().cast(self.words.type), self.words), -1).to_numpy()
        document = np.repeat(np.arange(len(lists)), lengths)[places >= 0]
        smoothed = self.counts + self.smoothing
        _kernel_score(document, places[places >= 0], np.log(smoothed) - np.log(smoothed.sum(axis=0)), scores)
        return scores

    def classify(self, documents: pa.Array | pa.ChunkedArray | Sequence[Sequence[str]]) -> pa.Array:
        """Return the likeliest class of each document."""
        return pa.array(self.classes).take(pa.array(self.scores(documents).argmax(axis=1)))

    def _log_priors(self) -> Floats:
        documents = self.documents if self.documents is not None and self.documents.any() else [1] * len(self.classes)
        with np.errstate(divide="ignore"):
            priors: Floats = np.log(documents) - np.log(np.sum(documents))
        return priors


def _one_array(documents: pa.Array | pa.ChunkedArray | Sequence[Sequence[str]]) -> pa.Array:
    if isinstance(documents, pa.ChunkedArray):
        return documents.combine_chunks()
    return documents if isinstance(documents, pa.Array) else pa.array(documents, pa.list_(pa.string()))


@njit(cache=True)
def _kernel_add_rows(parts: Numbers, group_of_row: Numbers, totals: Numbers) -> None:
    for row in range(len(parts)):
        for column in range(parts.shape[1]):
            totals[group_of_row[row], column] += parts[row, column]


@njit(cache=True)
def _kernel_score(document: Numbers, word: NDArray[np.int32], logs: Floats, scores: Floats) -> None:
    for row in range(len(document)):
        for column in range(logs.shape[1]):
            scores[document[row], column] += logs[word[row], column]
