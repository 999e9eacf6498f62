"""The columns of a chunk of state, and its compressed form for the store."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from unskew.errors import ArgumentError, CheckpointError
from unskew.state.groups import Numbers, joined, plain_schema

HASH = "hash"
KEY_PREFIX, VALUE_PREFIX = "key.", "value."

_ZONE = re.compile(r"(?<=tz=)[^\]]+(?=\])")

# chunks are small, and the cores belong to Spark's tasks
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)


@dataclass(frozen=True)
class Columns:
    """Which columns a state has, in plain types. Prefixes keep key and value columns of the same name apart."""

    keys: pa.Schema
    values: pa.Schema

    @classmethod
    def of(cls, key_schema: pa.Schema, value_schema: pa.Schema) -> Columns:
        for name, schema in (("key", key_schema), ("value", value_schema)):
            if len(set(schema.names)) < len(schema):
                raise ArgumentError(f"two {name} columns have the same name", got=schema.names)
            if not len(schema):
                raise ArgumentError(f"state needs at least one {name} column")
        return cls(plain_schema(key_schema), plain_schema(value_schema))

    @classmethod
    def of_rows(cls, rows: pa.Schema) -> Columns:
        """Return the columns that these are the `rows` of."""
        parts = (
            pa.schema([each.with_name(each.name.removeprefix(kind)) for each in rows if each.name.startswith(kind)])
            for kind in (KEY_PREFIX, VALUE_PREFIX)
        )
        return cls(*parts)

    @cached_property
    def rows(self) -> pa.Schema:
        """The columns of chunks, and of rows that leave or enter a state."""
        keys = [field.with_name(KEY_PREFIX + field.name) for field in self.keys]
        values = [field.with_name(VALUE_PREFIX + field.name) for field in self.values]
        return pa.schema([pa.field(HASH, pa.int64()), *keys, *values])

    @property
    def text(self) -> str:
        """The columns in words, for people and for comparison."""
        kinds = (("key", self.keys), ("value", self.values))
        return "; ".join(f"{kind} {field.name}: {field.type}" for kind, schema in kinds for field in schema)

    def are(self, text: str) -> bool:
        """Tell whether a text names these columns. The time zone in which instants are shown does not matter."""
        return _without_zones(text) == _without_zones(self.text)

    def cover(self, text: str) -> bool:
        """Tell whether a text names some of these columns and no others."""
        named, all_of_them = ({*_without_zones(each).split("; ")} for each in (text, self.text))
        return named <= all_of_them

    def make_rows(self, hashes: Numbers, keys: pa.Table, values: pa.Table) -> pa.RecordBatch:
        arrays = [pa.array(hashes, pa.int64()), *plain_arrays(keys, self.keys), *plain_arrays(values, self.values)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.rows)

    def keys_in(self, rows: pa.Table) -> pa.Table:
        return pa.Table.from_arrays([rows.column(KEY_PREFIX + name) for name in self.keys.names], schema=self.keys)

    def values_in(self, rows: pa.Table) -> pa.Table:
        columns = [rows.column(VALUE_PREFIX + name) for name in self.values.names]
        return pa.Table.from_arrays(columns, schema=self.values)

    def empty_values(self, length: int) -> pa.Table:
        return pa.Table.from_arrays([pa.nulls(length, field.type) for field in self.values], schema=self.values)


def plain_arrays(table: pa.Table, schema: pa.Schema) -> list[pa.Array]:
    """Return the columns of a table as arrays of the types in `schema`, in its order."""
    if sorted(table.column_names) != sorted(schema.names):
        raise ArgumentError("the columns are not those of the state", got=table.column_names, hint=f"{schema.names}")
    return [_cast(joined(table.column(field.name)), field) for field in schema]


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    if array.type == field.type:
        return array
    try:
        return array.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        what = f"a column does not fit the state's type {field.type}: {error}"
        raise ArgumentError(what, where=f"column {field.name!r}", got=str(array.type)) from None


def to_store(parts: Iterable[pa.RecordBatch]) -> tuple[bytes, list[int]]:
    """Return rows in compressed form, and where each part begins. Each part can be read alone."""
    sink, starts = pa.BufferOutputStream(), []
    for part in parts:
        starts.append(sink.tell())
        with pa.ipc.new_stream(sink, part.schema, options=_COMPRESSED) as writer:
            writer.write_batch(part)
    return sink.getvalue().to_pybytes(), starts


def from_store(data: bytes | pa.Buffer, sequence: int, columns: Columns) -> pa.RecordBatch:
    """Read a chunk, or parts of one that lie side by side; raises `CheckpointError` if they are damaged."""
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
        with suppress(StopIteration):  # reads the end of the stream, where the next part begins
            reader.read_next_batch()
        if reader.schema.equals(columns.rows):
            return rows
        there, here = ([_without_zones(str(field)) for field in schema] for schema in (reader.schema, columns.rows))
        if not {*there} <= {*here}:
            raise pa.ArrowInvalid(f"its columns are {reader.schema.names}")
        arrays = [
            rows.column(field.name).cast(field.type) if field.name in reader.schema.names else _nothing(rows, field)
            for field in columns.rows
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=columns.rows)


def _nothing(rows: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """Return a column that was not there yet when the rows were written."""
    return pa.nulls(rows.num_rows, field.type)


def _without_zones(text: str) -> str:
    return _ZONE.sub("", text)
