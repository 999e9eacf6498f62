"""Operators that learn: what a batch's output amounts to is known everywhere in the next batch."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import ClassVar, Self

import pyarrow as pa

from unskew.operators.base import Mergeable


class Learner(Mergeable):
    """An operator in rounds: after each batch one place learns from its output, and all tasks know it in the next one.

    The stream's rows become rows of the operator's own where they are read, under what is known by then (`expand`);
    those are grouped by the operator's own key, and turned into state and output by `lift`, `merge` and `finish`. From
    a batch's output and what was known before follows what is known afterwards (`learn`), and from that what tasks have
    to know (`lesson_of`) and what the user gets to see (`result`).

    What was learned lies in the control log with the decision for the next batch, so a batch that runs again reads
    what it read the first time. All functions must be pure, and `learn` must not depend on the order of rows.

    `bind` is given the stream's schema and key; subclasses set `input_schema` and `key` to their own there.
    """

    learns: ClassVar[bool] = True

    lesson: bytes = b""
    """What is known in this batch; nothing in the first one."""

    def taught(self, lesson: bytes) -> Self:
        """Return a copy that knows a lesson."""
        taught = copy.copy(self)
        taught.lesson = lesson
        return taught

    @abstractmethod
    def expand(self, rows: pa.Table) -> pa.Table:
        """Return the operator's own rows (`input_schema`) for rows of the stream, under the lesson."""

    @abstractmethod
    def learn(self, learned: bytes, output: pa.Table) -> bytes:
        """Return all that is known after a batch.

        Parameters
        ----------
        learned
            What this returned for the batch before; nothing, ``b""``, before the first one.
        output
            The batch's output (`output_schema`): one row for each key that had rows.
        """

    def lesson_of(self, learned: bytes) -> bytes:
        """Return the part of it that tasks have to know; it travels with each of them."""
        return learned

    @property
    @abstractmethod
    def result_schema(self) -> pa.Schema:
        """What `result` returns."""

    @abstractmethod
    def result(self, learned: bytes) -> pa.Table:
        """Return what the user gets to see of it after each batch."""
