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

from unskew.errors import ArgumentError, ColumnError, require_list
from unskew.operators.base import Floats, Mergeable, Numbers, require_column
from unskew.operators.lists import concatenated
from unskew.operators.reductions import valid_rows
from unskew.state.groups import Groups, plain_schema

COUNTS = "counts"


class NaiveBayes(Mergeable):
    """Counts for every word how often it occurs in documents of each class.

    The key is the word. There is one row for each word of a document, with the document's class; one more row for each
    document, whose word is null, counts the documents of each class. In Spark::

        words = documents.selectExpr("label", "explode(array_append(split(text, ' '), null)) as word")
        balance(words, "word").apply(NaiveBayes("label", ["ham", "spam"]))

    Each batch yields the new counts of its words, from which `NaiveBayesModel` classifies. Counts are whole numbers, so
    the model is exactly that of a single process, even if words are split or moved. Rows whose class is null or none of
    `classes` are passed over; their words are kept with no counts.

    Costs O(rows + words * classes) in each batch. Keeps one count per word and class.

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
    value_schema = pa.schema([pa.field(COUNTS, pa.list_(pa.int64()))])  # the number of rows of each class

    def __init__(self, label: str, classes: Sequence[str | int]) -> None:
        self.label, self.classes = label, require_list("classes", classes)
        for name in self.classes:
            if not isinstance(name, (str, int)):
                raise ArgumentError("a class is a word or a whole number", got=name)
        if not self.classes or len(set(self.classes)) < len(self.classes):
            raise ArgumentError("name all classes, each once", got=list(classes))

    def __repr__(self) -> str:
        return f"NaiveBayes({self.label!r}, {list(self.classes)})"

    def check(self) -> None:
        super().check()
        kind = plain_schema(pa.schema([require_column(self.input_schema, self.label)])).field(0).type
        try:
            pa.array(self.classes, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            where = f"column {self.label!r}"
            raise ColumnError("the classes are of another type", where=where, got=str(kind)) from None
        if len(self.key) > 1:
            raise ArgumentError("the key must be the word alone", got=self.key)

    @property
    def columns_needed(self) -> tuple[str, ...]:
        return (self.label,)

    def lift(self, rows: pa.Table, groups: Groups) -> pa.Table:
        labels = rows.column(self.label).combine_chunks()
        if types.is_dictionary(labels.type):
            labels = labels.dictionary_decode()
        places = pc.fill_null(pc.index_in(labels, pa.array(self.classes, labels.type)), -1).to_numpy()
        known = places >= 0
        cells = groups.group_of_row[known] * len(self.classes) + places[known]
        return self._as_lists(np.bincount(cells, minlength=len(groups) * len(self.classes)), len(groups))

    def merge(self, values: pa.Table, groups: Groups) -> pa.Table:
        counts = values.column(COUNTS).combine_chunks()
        held = np.asarray(counts.is_valid().to_numpy(zero_copy_only=False))
        totals = np.zeros((len(groups), len(self.classes)), np.int64)
        parts = counts.flatten().to_numpy().reshape(-1, len(self.classes))
        _kernel_add_rows(parts, groups.group_of_row[held], totals)
        return self._as_lists(totals.ravel(), len(groups))

    def _as_lists(self, cells: Numbers, groups: int) -> pa.Table:
        offsets = pa.array(np.arange(groups + 1) * len(self.classes), pa.int32())
        return pa.table([pa.ListArray.from_arrays(offsets, pa.array(cells, pa.int64()))], schema=self.value_schema)


@dataclass(frozen=True, eq=False)
class NaiveBayesModel:
    """Classifies documents by the counts of words: multinomial naive Bayes with additive smoothing.

    It chooses the class with the greatest ``log P(class) + sum of log P(word | class)`` over a document's words, the
    first of equal ones, with ``P(word | class) = (count + smoothing) / (words of class + smoothing * vocabulary)``.
    Words that were never seen are passed over. Until there is a document, all classes are equally likely. See
    `NaiveBayes` for an example.

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
        is_word = valid_rows(words)
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
        scores: Floats = np.tile(self._log_priors(), (len(lists), 1))
        if self.counts is None or not len(self.words):
            return scores
        words, document = concatenated(lists)
        places = pc.fill_null(pc.index_in(words.cast(self.words.type), self.words), -1).to_numpy()
        smoothed = self.counts + self.smoothing
        logs = np.log(smoothed) - np.log(smoothed.sum(axis=0))
        _kernel_score(document[places >= 0], places[places >= 0], logs, scores)
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
