"""Arrow tables as bytes, the form in which rows and state travel through Spark."""

from __future__ import annotations

import pyarrow as pa


def pack(rows: pa.Table | pa.RecordBatch) -> bytes:
    """Return rows as one Arrow IPC stream.

    Examples
    --------
    >>> unpack(pack(pa.table({"a": [1, 2]}))).to_pydict()
    {'a': [1, 2]}
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return bytes(sink.getvalue())


def unpack(blob: bytes) -> pa.Table:
    """Return the rows of `pack`, without copying them."""
    return pa.ipc.open_stream(pa.BufferReader(pa.py_buffer(blob))).read_all()
