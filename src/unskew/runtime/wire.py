"""Every form in which rows, state, orders and results travel between tasks and the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

HASH_COLUMN = "__unskew_hash"
COUNT_COLUMN = "__unskew_count"
PLACE_COLUMN = "__unskew_place"
"""Columns that rows carry on the way: the key's hash, how many rows one combined row stands for, and Spark's own hash
of the key, by which Spark alone would have placed the row."""

PACKS = pa.schema(
    [("source", pa.int32()), ("sequence", pa.int32()), ("blob", pa.binary()), ("counts", pa.binary())],
)
"""What PREPARE makes of one partition: packs of rows in order, and last, under `LAST`, what was counted."""

PARCELS = pa.schema(
    [
        ("task", pa.int32()),
        ("channel", pa.int32()),
        ("kind", pa.int8()),
        ("source", pa.int32()),
        ("sequence", pa.int32()),
        ("blob", pa.binary()),
    ]
)
"""What travels through the shuffle: `ORDER`, `STATE` and `ROWS` for a channel; `COUNTS` for the driver.

Where tasks cannot reach the checkpoint: `GIVEN`, a piece for a channel to read; `MISSED`, whose state was not given.
"""

PIECES = pa.schema([("channel", pa.int32()), ("name", pa.string()), ("offset", pa.int64()), ("contents", pa.binary())])
"""Parts of files that somebody has read for channels whose tasks cannot."""

RESULTS = pa.schema([("channel", pa.int32()), ("kind", pa.int8()), ("payload", pa.binary())])
"""What a channel gives back: one `REPORT`, and its rows: `OUTPUT`, `OUTPUT_PIECE` (where they lie), `PARTIALS`.

Beside them `COUNTED`, where rows are counted on the way, or `TOO_MANY` in place of everything. Where tasks cannot reach
the checkpoint: `WRITTEN`, a file for the driver to write, or `MISSING` in place of everything.
"""

LAST = -1
BYTES_TOGETHER = 16 << 20
LONGEST_NAME = 200
ORDER, STATE, ROWS, COUNTS, GIVEN, MISSED = range(6)
REPORT, OUTPUT, OUTPUT_PIECE, PARTIALS, COUNTED, TOO_MANY, WRITTEN, MISSING = range(8)


def record_batch(schema: pa.Schema, *columns: Sequence[Any]) -> pa.RecordBatch:
    """Return rows of one of these schemas."""
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def gathered(schema: pa.Schema, rows: Iterable[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
    """Yield rows whose last column is a blob, many to a batch, because each batch has a price of its own.

    Examples
    --------
    >>> [batch.num_rows for batch in gathered(RESULTS, [(channel, REPORT, b"fine") for channel in range(3)])]
    [3]
    """
    held: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row[-1] or b"")
        if size >= BYTES_TOGETHER:
            yield record_batch(schema, *zip(*held, strict=True))
            held, size = [], 0
    if held:
        yield record_batch(schema, *zip(*held, strict=True))


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


def unpack(blob: bytes | pa.Buffer) -> pa.Table:
    """Return the rows of `pack`, without copying them."""
    return pa.ipc.open_stream(pa.BufferReader(pa.py_buffer(blob))).read_all()


def enveloped(name: str, offset: int, contents: bytes | pa.Buffer) -> bytes:
    """Return a part of a file as one blob.

    Examples
    --------
    >>> name, offset, contents = opened(pa.py_buffer(enveloped("state/7/a-0.arrow", 64, b"rows")))
    >>> name, offset, contents.to_pybytes()
    ('state/7/a-0.arrow', 64, b'rows')
    """
    return b"\0".join((name.encode(), b"%d" % offset, contents))


def opened(blob: pa.Buffer) -> tuple[str, int, pa.Buffer]:
    """Return what was `enveloped`, without copying the contents."""
    name, offset, _ = bytes(blob.slice(0, min(blob.size, LONGEST_NAME))).split(b"\0", 2)
    return name.decode(), int(offset), blob.slice(len(name) + len(offset) + 2)
