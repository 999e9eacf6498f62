"""Naive Bayes as a stream of classifications: documents with a label teach, documents without one are asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from unskew.errors import ArgumentError, require_number
from unskew.hashing import hash_keys
from unskew.operators.base import Clock, refuse_key_names, require_column
from unskew.operators.learner import Learner, from_bytes, to_bytes
from unskew.operators.naive_bayes import COUNTS, NaiveBayes, NaiveBayesModel
from unskew.state.groups import Groups, group_rows, plain_schema
from unskew.state.keyed_state import KeyedState

WORD, DOCUMENT, PREDICTED = "word", "document", "predicted"


class NaiveBayesClassifier(Learner):
    """Learns from the documents of a stream that have a label, and classifies those whose label is null.

    The stream's key says which document a row is. Each batch yields the key and the class, ``predicted``, of every
    document without a label, by the model of all batches before; null as long as no document has had a label. The
    batch's own labels count from the next batch on. So answers depend on which rows came in which batch, and on nothing
    else: not on channels, moves, failures, or the order of rows. Rows with a label that is none of `classes` are passed
    over; so are words that are null.

    Tasks count words and classify where rows are read, channels add counts up, and the driver adds them to the model,
    which all tasks of the next batch get; see `NaiveBayesModel`. Costs O(words of the batch), and O(words known *
    classes) on the driver and in each task. The model is part of every record, so this is for some hundred
    thousand different words. Beyond that, count words with `NaiveBayes`.

    Parameters
    ----------
    words
        The column with a document's words, a list of strings: ``split(text, ' ')``.
    label
        The column of the class.
    classes
        All classes there are. The first of equally likely ones is chosen.
    smoothing
        What is added to every count.

    References
    ----------
    Nasir et al., Partial Key Grouping, section 4.3.

    Examples
    --------
    >>> from unskew.testing import run
    >>> taught = pa.table({"id": [1, 2], "words": [["free", "tea"], ["tea"]], "label": ["spam", "ham"]})
    >>> asked = pa.table({"id": [3, 4], "words": [["free", "ink"], ["tea"]], "label": pa.nulls(2, pa.string())})
    >>> operator = NaiveBayesClassifier("words", "label", ["ham", "spam"])
    >>> run(operator, [taught, asked], key="id").outputs[1].to_pylist()
    [{'id': 3, 'predicted': 'spam'}, {'id': 4, 'predicted': 'ham'}]
    """

    memory = "constant"
    output_mode = "append"
    output_key = ()  # an answer does not replace another
    value_schema = NaiveBayes.value_schema  # of a word; but channels keep nothing, the model is the driver's

    def __init__(self, words: str, label: str, classes: Sequence[str | int], *, smoothing: float = 1.0) -> None:
        self.words, self.label, self.smoothing = words, label, smoothing
        self._counter = NaiveBayes(label, classes)
        self.classes = self._counter.classes
        require_number("smoothing", smoothing, whole=False)
        if smoothing <= 0:
            raise ArgumentError("smoothing must be more than 0", where="smoothing", got=smoothing)

    def __repr__(self) -> str:
        of = f", of={list(self.stream_key)}" if self.stream_key else ""
        settings = f"{self.words!r}, {self.label!r}, {list(self.classes)}, smoothing={self.smoothing}"
        return f"NaiveBayesClassifier({settings}{of})"

    @property
    def columns_needed(self) -> tuple[str, ...]:
        return self.words, self.label

    def own_input(self) -> tuple[pa.Schema, tuple[str, ...]]:
        require_column(self.stream_schema, self.words, _is_list_of_text, "words must be a list of strings")
        label = plain_schema(pa.schema([require_column(self.stream_schema, self.label)]))
        schema = pa.schema([pa.field(WORD, pa.string()), *label])
        self._counter = self._counter.bind(schema, (WORD,))
        refuse_key_names(self.stream_key, [PREDICTED])
        document = plain_schema(pa.schema([require_column(self.stream_schema, name) for name in self.stream_key]))
        answer = pa.field(PREDICTED, label.field(0).type)
        fields = [pa.field(WORD, pa.string()), pa.field(DOCUMENT, pa.struct(list(document)))]
        return pa.schema([*fields, *self.value_schema, answer]), (WORD, DOCUMENT)

    @property
    def output_schema(self) -> pa.Schema:
        return self.input_schema

    @property
    def result_schema(self) -> pa.Schema:
        return pa.schema([*self.input_schema.field(DOCUMENT).type, self.input_schema.field(PREDICTED)])

    def expand(self, rows: pa.Table) -> pa.Table:
        """Count the words of documents with a label, and classify those without."""
        lists = rows.column(self.words).combine_chunks().cast(pa.list_(pa.string()))
        labels = rows.column(self.label).cast(self.input_schema.field(PREDICTED).type).combine_chunks()
        asked = rows.filter(labels.is_null()).select(list(self.stream_key))
        counts, answers = self._counts(lists, labels), self._answers(lists.filter(labels.is_null()))
        kind = self.input_schema.field(DOCUMENT).type
        keys = [c.combine_chunks().cast(field.type) for c, field in zip(asked.columns, kind, strict=True)]
        answered = pa.table({DOCUMENT: pa.StructArray.from_arrays(keys, fields=list(kind)), PREDICTED: answers})
        both = pa.concat_tables([self.input_schema.empty_table(), counts, answered], promote_options="default")
        return both.select(self.input_schema.names).combine_chunks()

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table:
        """Add up the counts of each word; answers pass through."""
        is_word = np.asarray(groups.keys.column(DOCUMENT).is_null().to_numpy())
        counts = self._counter.merge(rows.select([COUNTS]), groups)
        words = pa.table([groups.keys.column(WORD), *counts.columns], [WORD, COUNTS]).filter(pa.array(is_word))
        answers = rows.filter(pc.is_valid(rows.column(DOCUMENT)))
        return pa.concat_tables([answers, words], promote_options="default").cast(self.output_schema)

    def learn(self, learned: bytes, output: pa.Table) -> bytes:
        """Add the batch's counts to the model, whose words are in order."""
        counted = output.filter(pc.is_null(output.column(DOCUMENT))).select([WORD, COUNTS])
        both = pa.concat_tables([from_bytes(learned), counted] if learned else [counted]).combine_chunks()
        groups = group_rows(both, hash_keys(both, WORD), [WORD])
        counts = self._counter.merge(both.select([COUNTS]), groups)
        return to_bytes(pa.table([*groups.keys.columns, *counts.columns], [WORD, COUNTS]).sort_by(WORD))

    def result(self, learned: bytes, output: pa.Table) -> pa.Table:
        answers = output.filter(pc.is_valid(output.column(DOCUMENT)))
        documents = answers.column(DOCUMENT).combine_chunks()
        return pa.table([*documents.flatten(), answers.column(PREDICTED)], schema=self.result_schema)

    def model(self, lesson: bytes) -> NaiveBayesModel:
        return _read_model(lesson, self.classes, self.smoothing)

    def _counts(self, lists: pa.Array, labels: pa.Array) -> pa.Table:
        """Return how often each word occurs in documents of each class, and under null how many documents there are."""
        known = pc.is_in(labels, pa.array(self.classes, labels.type))
        lists, labels = lists.filter(known), labels.filter(known)
        words, of_word = lists.flatten(), labels.take(pc.list_parent_indices(lists))
        words, of_word = words.drop_null(), of_word.filter(words.is_valid())
        words = pa.concat_arrays([words, pa.nulls(len(labels), pa.string())])
        exploded = pa.table({WORD: words, self.label: pa.concat_arrays([of_word, labels])})
        groups = group_rows(exploded, hash_keys(exploded, WORD), [WORD])
        return self._counter.combine(exploded, groups)[0]

    def _answers(self, lists: pa.Array) -> pa.Array:
        kind, model = self.input_schema.field(PREDICTED).type, self.model(self.lesson)
        return pa.nulls(len(lists), kind) if model.documents is None else model.classify(lists).cast(kind)


def _is_list_of_text(kind: pa.DataType) -> bool:
    text = (types.is_string, types.is_large_string, types.is_string_view)
    return (types.is_list(kind) or types.is_large_list(kind)) and any(test(kind.value_type) for test in text)


@lru_cache(maxsize=4)
def _read_model(lesson: bytes, classes: tuple[str | int, ...], smoothing: float) -> NaiveBayesModel:
    model = NaiveBayesModel(classes, smoothing)
    return model.after(from_bytes(lesson)) if lesson else model
