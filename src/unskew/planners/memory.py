"""What a planner remembers from one interval to the next: a value that goes in and comes out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from unskew.errors import FormatError

Scalar = str | int | float | bool


@dataclass(frozen=True)
class Memory:
    """Small values by name and Arrow tables by name, so that a restart loses nothing.

    Examples
    --------
    >>> memory = Memory({"collection_batches": 4})
    >>> Memory.from_bytes(memory.to_bytes()) == memory
    True
    """

    values: Mapping[str, Scalar] = field(default_factory=dict)
    tables: Mapping[str, pa.Table] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return one Arrow stream with a row per table; its metadata holds the values."""
        names = sorted(self.tables)
        blobs = [_table_to_bytes(self.tables[name]) for name in names]
        schema = pa.schema(
            [("name", pa.string()), ("table", pa.large_binary())],
            metadata={"unskew.memory": json.dumps(dict(self.values), sort_keys=True)},
        )
        rows = pa.table([pa.array(names, pa.string()), pa.array(blobs, pa.large_binary())], schema=schema)
        return _table_to_bytes(rows)

    @classmethod
    def from_bytes(cls, data: bytes) -> Memory:
        """Read what `to_bytes` wrote; raises `FormatError` if the bytes are something else."""
        try:
            rows = pa.ipc.open_stream(pa.BufferReader(data)).read_all()
            values = json.loads(rows.schema.metadata[b"unskew.memory"])
            tables = {
                name: pa.ipc.open_stream(pa.BufferReader(blob)).read_all()
                for name, blob in zip(rows["name"].to_pylist(), rows["table"].to_pylist(), strict=True)
            }
        except (pa.ArrowException, KeyError, TypeError, ValueError, OSError) as error:
            raise FormatError("these bytes are not a planner's memory") from error
        return cls(values, tables)


def _table_to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
