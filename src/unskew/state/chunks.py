"""The columns of a chunk of state, and its two forms as bytes: compressed for the store, plain for memory-mapping."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import ArgumentError, CheckpointError
from unskew.state.groups import plain_schema

Numbers = NDArray[np.int64]

HASH = "hash"
KEY_PREFIX, VALUE_PREFIX = "key.", "value."

_ZONE = re.compile(r"(?<=tz=)[^\]]+(?=\])")

# chunks are small, and the cores belong to Spark's tasks
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)


@dataclass(frozen=True)
class Columns:
    """Which columns a state has.

    Prefixes keep key and value columns of the same name apart. Dictionaries and views are stored as plain columns.

    Examples
    --------
    >>> columns = Columns.of(pa.schema({"user": pa.string()}), pa.schema({"n": pa.int64()}))
    >>> columns.rows.names
    ['hash', 'key.user', 'value.n']
    >>> columns.text
    'key user: string; value n: int64'
    """

    keys: pa.Schema
    values: pa.Schema

    @classmethod
    def of(cls, key_schema: pa.Schema, value_schema: pa.Schema) -> Columns:
        """Check the schemas and bring them into the form that is stored."""
        for name, schema in (("key", key_schema), ("value", value_schema)):
            if len(set(schema.names)) < len(schema):
                raise ArgumentError(f"two {name} columns have the same name", got=schema.names)
            if not len(schema):
                raise ArgumentError(f"state needs at least one {name} column")
        return cls(plain_schema(key_schema), plain_schema(value_schema))

    @cached_property
    def rows(self) -> pa.Schema:
        """The columns of chunks, and of rows that leave or enter a state."""
        return pa.schema([pa.field(HASH, pa.int64()), *self._prefixed(KEY_PREFIX), *self._prefixed(VALUE_PREFIX)])

    @property
    def text(self) -> str:
        """The columns in words, for people and for comparison."""
        kinds = (("key", self.keys), ("value", self.values))
        return "; ".join(f"{kind} {field.name}: {field.type}" for kind, schema in kinds for field in schema)

    def are(self, text: str) -> bool:
        """Tell whether a text says these columns; the time zone in which instants are shown does not matter."""
        return _without_zones(text) == _without_zones(self.text)

    def make_rows(self, hashes: Numbers, keys: pa.Table, values: pa.Table) -> pa.RecordBatch:
        """Put hashes, key columns and value columns side by side."""
        arrays = [pa.array(hashes, pa.int64()), *plain_arrays(keys, self.keys), *plain_arrays(values, self.values)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.rows)

    def keys_in(self, rows: pa.Table) -> pa.Table:
        """Return the key columns of rows, by their own names."""
        return pa.Table.from_arrays([rows.column(KEY_PREFIX + name) for name in self.keys.names], schema=self.keys)

    def values_in(self, rows: pa.Table) -> pa.Table:
        """Return the value columns of rows, by their own names."""
        columns = [rows.column(VALUE_PREFIX + name) for name in self.values.names]
        return pa.Table.from_arrays(columns, schema=self.values)

    def empty_values(self, length: int) -> pa.Table:
        """Return value columns full of nulls."""
        return pa.Table.from_arrays([pa.nulls(length, field.type) for field in self.values], schema=self.values)

    def _prefixed(self, prefix: str) -> list[pa.Field]:
        schema = self.keys if prefix == KEY_PREFIX else self.values
        return [field.with_name(prefix + field.name) for field in schema]


def plain_arrays(table: pa.Table, schema: pa.Schema) -> list[pa.Array]:
    """Return the columns of a table as arrays of the types that `schema` says, in its order."""
    if sorted(table.column_names) != sorted(schema.names):
        raise ArgumentError("the columns are not those of the state", got=table.column_names, hint=f"{schema.names}")
    arrays = []
    for field in schema:
        column = table.column(field.name)
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if array.type != field.type:
            array = _cast(array, field)
        arrays.append(array)
    return arrays


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return array.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        what = f"a column does not fit the state's type {field.type}: {error}"
        raise ArgumentError(what, where=f"column {field.name!r}", got=str(array.type)) from None


def to_store(parts: Iterable[pa.RecordBatch]) -> tuple[bytes, list[int]]:
    """Return rows in their compressed form, and where each part of them begins; each can be read alone."""
    sink, starts = pa.BufferOutputStream(), []
    for part in parts:
        starts.append(sink.tell())
        with pa.ipc.new_stream(sink, part.schema, options=_COMPRESSED) as writer:
            writer.write_batch(part)
    return sink.getvalue().to_pybytes(), starts


def from_store(data: bytes | pa.Buffer, sequence: int, columns: Columns) -> pa.RecordBatch:
    """Read a chunk, or parts of one that lie side by side, or raise `CheckpointError` if they are damaged."""
    source, parts = pa.BufferReader(data), list[pa.RecordBatch]()
    try:
        while not parts or source.tell() < source.size():
            parts.append(_read(source, columns))
    except (pa.ArrowException, OSError, StopIteration) as error:
        where, hint = f"chunk {sequence}", "restore the checkpoint, or start from a new one"
        raise CheckpointError("a chunk of state is damaged", where=where, got=str(error), hint=hint) from error
    return one_batch(parts, columns.rows)


def one_batch(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of several batches as one."""
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema)


def _read(source: pa.BufferReader, columns: Columns) -> pa.RecordBatch:
    with pa.ipc.open_stream(source, options=_READ) as reader:
        rows = reader.read_next_batch()
        with suppress(StopIteration):  # its end is read, too: the next part begins there
            reader.read_next_batch()
        if reader.schema.equals(columns.rows):
            return rows
        there, here = ([_without_zones(str(field)) for field in schema] for schema in (reader.schema, columns.rows))
        if there != here:
            raise pa.ArrowInvalid(f"its columns are {reader.schema.names}")
        return rows.cast(columns.rows)


def _without_zones(text: str) -> str:
    return _ZONE.sub("", text)
