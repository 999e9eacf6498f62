"""Operators that learn from each batch and use what they have learned in the next one."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import ClassVar, Self

import pyarrow as pa

from unskew.operators.base import Mergeable, Operator
from unskew.state.groups import Groups


class Learner(Operator):
    """An operator that works in rounds. The driver learns from each batch, and all tasks of the next batch know it.

    A round has three steps:

    1. The tasks that read the stream turn its rows into the operator's own rows (`expand`). They use the lesson of the
       batches before.
    2. The channels group these rows by the operator's own key, and turn them into state and output (`update`, or for a
       learner that is a `Mergeable` too, `lift`, `merge` and `finish`).
    3. The driver learns from the output (`learn`). From what it has learned it makes the lesson for the next batch
       (`lesson_of`). From both it makes the rows that the user sees (`result`).

    What was learned is stored with the batch, so a batch that runs again gets the same lesson as the first time. All
    functions must be pure, and `learn` must not depend on the order of rows.

    A learner has two schemas and two keys. `stream_schema` and `stream_key` are the stream's, which `bind` gets.
    `input_schema` and `key` are those of the operator's own rows, which `own_input` chooses. Names in `columns_needed`
    are columns of the stream.
    """

    learns: ClassVar[bool] = True
    lesson: bytes = b""  # what tasks know in this batch; empty in the first one
    stream_schema: pa.Schema
    stream_key: tuple[str, ...] = ()

    def bind(self, input_schema: pa.Schema, key: tuple[str, ...]) -> Self:
        learner = copy.copy(self)
        learner.stream_schema, learner.stream_key = input_schema, tuple(key)
        return super(Learner, learner).bind(*learner.own_input())

    @abstractmethod
    def own_input(self) -> tuple[pa.Schema, tuple[str, ...]]:
        """Return the schema and key of the operator's own rows, or raise if the stream does not fit."""

    @property
    def columns_read(self) -> tuple[str, ...]:
        return self._columns_read_of(self.stream_schema, self.stream_key)

    def taught(self, lesson: bytes) -> Self:
        taught = copy.copy(self)
        taught.lesson = lesson
        return taught

    @abstractmethod
    def expand(self, rows: pa.Table) -> pa.Table:
        """Turn rows of the stream into the operator's own rows (`input_schema`), with the help of the lesson."""

    @abstractmethod
    def learn(self, learned: bytes, output: pa.Table) -> bytes:
        """Return all that the driver knows after a batch, from what it knew before and the batch's output in any order.

        `learned` is what `learn` returned for the batch before; ``b""`` in the first batch.
        """

    def lesson_of(self, learned: bytes) -> bytes:
        """Return the part of `learned` that tasks have to know. It travels with every task, so keep it small."""
        return learned

    @property
    @abstractmethod
    def result_schema(self) -> pa.Schema:
        """The rows that `result` returns."""

    @abstractmethod
    def result(self, learned: bytes, output: pa.Table) -> pa.Table:
        """Return the rows that the user sees after a batch: what `learn` returned, or the batch's output, or both."""


class MergingLearner(Learner, Mergeable):
    """A learner whose channels do the work of another operator, `channel_operator`."""

    channel_operator: Mergeable

    @property
    def value_schema(self) -> pa.Schema:
        return self.channel_operator.value_schema

    @property
    def output_schema(self) -> pa.Schema:
        return self.channel_operator.output_schema

    def lift(self, rows: pa.Table, groups: Groups) -> pa.Table:
        return self.channel_operator.lift(rows, groups)

    def merge(self, values: pa.Table, groups: Groups) -> pa.Table:
        return self.channel_operator.merge(values, groups)

    def finish(self, keys: pa.Table, values: pa.Table) -> pa.Table:
        return self.channel_operator.finish(keys, values)


def from_bytes(learned: bytes) -> pa.Table:
    """Read what `to_bytes` wrote."""
    return pa.ipc.open_stream(learned).read_all()


def to_bytes(table: pa.Table) -> bytes:
    """Write what was learned as a table, compressed; equal tables give equal bytes."""
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table.combine_chunks())
    return bytes(buffer.getvalue())
