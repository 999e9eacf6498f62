"""Routing tables as Arrow files: one row, a format version, a checksum."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa

from unskew.errors import FormatError, UnskewError
from unskew.routing.table import RoutingTable

FORMAT_VERSION = 1

_SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("channels", pa.int32()),
        ("slots", pa.list_(pa.int32())),
        ("explicit_hashes", pa.list_(pa.int64())),
        ("explicit_channels", pa.list_(pa.int32())),
        ("split_hashes", pa.list_(pa.int64())),
        ("split_channels", pa.list_(pa.list_(pa.int32()))),
    ]
)
_METADATA_KEY = b"unskew.routing_table"


def table_to_bytes(table: RoutingTable) -> bytes:
    """Return a table as an Arrow IPC file, with the format version and a checksum in its schema's metadata."""
    split = list(table.split), [list(channels) for channels in table.split.values()]
    values = table.version, table.channels, table.slots, table.explicit_hashes, table.explicit_channels, *split
    row = [pa.array([value], field.type) for value, field in zip(values, _SCHEMA, strict=True)]
    batch = pa.RecordBatch.from_arrays(row, schema=_SCHEMA)
    header = json.dumps({"format_version": FORMAT_VERSION, "checksum": _checksum(batch)}).encode()
    schema = _SCHEMA.with_metadata({_METADATA_KEY: header})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(row, schema=schema))
    return bytes(sink.getvalue())


def table_from_bytes(data: bytes, where: str = "routing table") -> RoutingTable:
    """Return the table that `table_to_bytes` wrote, or raise a `FormatError` that names `where`."""
    try:
        reader = pa.ipc.open_file(pa.BufferReader(data))
        header = json.loads((reader.schema.metadata or {})[_METADATA_KEY])
        found = int(header["format_version"])
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        hint = "the file may be cut short; restore it from a copy"
        raise FormatError("this is not a routing table", where=where, hint=hint) from error
    if found > FORMAT_VERSION:
        what = f"the routing table has format version {found}, this unskew reads up to {FORMAT_VERSION}"
        raise FormatError(what, where=where, hint="upgrade unskew")
    try:
        batch = reader.get_batch(0)
        if _checksum(batch) != header["checksum"]:
            raise FormatError("the checksum does not match", where=where)
        version, channels, *columns = (batch.column(name)[0] for name in _SCHEMA.names)
        slots, hashes, owners, split_hashes, split_channels = (column.values for column in columns)
        split = dict(zip(split_hashes.to_pylist(), map(tuple, split_channels.to_pylist()), strict=True))
        entries = np.asarray(slots), np.asarray(hashes), np.asarray(owners)
        return RoutingTable(channels.as_py(), *entries, split, version.as_py())
    except (pa.ArrowException, KeyError, ValueError, OSError, UnskewError) as error:
        what = f"the routing table is damaged: {error}"
        raise FormatError(what, where=where, hint="restore it from a copy") from error


def save_table(table: RoutingTable, path: str | Path) -> None:
    """Write a table to a file that `load_table` reads."""
    Path(path).write_bytes(table_to_bytes(table))


def load_table(path: str | Path) -> RoutingTable:
    """Read a table that `save_table` wrote; raises `FormatError` if it is damaged or of a newer format."""
    return table_from_bytes(Path(path).read_bytes(), where=str(path))


def _checksum(batch: pa.RecordBatch) -> int:
    checksum = 0
    for column in batch.columns:
        flat, sizes = column, []
        while pa.types.is_list(flat.type):
            sizes.append(flat.value_lengths())
            flat = flat.flatten()
        for array in (*sizes, flat):
            checksum = zlib.crc32(array.to_numpy(zero_copy_only=False).tobytes(), checksum)
    return checksum
