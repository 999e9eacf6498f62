"""Every form in which rows, state, orders and results travel between tasks and the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

# Columns that rows carry on their way through a batch.
HASH_COLUMN = "__unskew_hash"
COUNT_COLUMN = "__unskew_count"  # how many rows one combined row stands for
PLACE_COLUMN = "__unskew_place"  # Spark's own hash of the key, by which Spark alone would have placed the row

# What PREPARE makes of one partition: packs of rows in order. The last one, with sequence `LAST`, has the counts.
PACKS = pa.schema(
    [("source", pa.int32()), ("sequence", pa.int32()), ("blob", pa.binary()), ("counts", pa.binary())],
)
LAST = -1

# What travels through the shuffle: `ORDER`, `STATE` and `ROWS` for a channel, `COUNTS` for the driver. Where tasks
# cannot reach the checkpoint, `GIVEN` is a piece for a channel to read, and `MISSED` says that its state did not come.
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
ORDER, STATE, ROWS, COUNTS, GIVEN, MISSED = range(6)

# Parts of files, read on behalf of channels whose tasks cannot read them.
PIECES = pa.schema([("channel", pa.int32()), ("name", pa.string()), ("offset", pa.int64()), ("contents", pa.binary())])

# What a channel gives back: one `REPORT`, and its rows as `OUTPUT`, `OUTPUT_PIECE` (where they lie) or `PARTIALS`.
# `COUNTED` has rows that were counted on the way; `TOO_MANY` replaces everything else. Where tasks cannot reach the
# checkpoint, `WRITTEN` is a file for the driver to write, and `MISSING` replaces everything else.
RESULTS = pa.schema([("channel", pa.int32()), ("kind", pa.int8()), ("payload", pa.binary())])
REPORT, OUTPUT, OUTPUT_PIECE, PARTIALS, COUNTED, TOO_MANY, WRITTEN, MISSING = range(8)

BYTES_TOGETHER = 16 << 20
LONGEST_NAME = 200


def record_batch(schema: pa.Schema, *columns: Sequence[Any]) -> pa.RecordBatch:
    """Return rows of one of these schemas."""
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def parcel(
    task: int, channel: int, kind: int, blob: bytes | None, source: int = 0, sequence: int = 0
) -> pa.RecordBatch:
    """Return one parcel."""
    return record_batch(PARCELS, [task], [channel], [kind], [source], [sequence], [blob])


def gathered(schema: pa.Schema, rows: Iterable[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
    """Yield rows whose last column is a blob, many to a batch, because every batch costs something.

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

    >>> name, offset, contents = opened(pa.py_buffer(enveloped("state/7/a-0.arrow", 64, b"rows")))
    >>> name, offset, contents.to_pybytes()
    ('state/7/a-0.arrow', 64, b'rows')
    """
    return b"\0".join((name.encode(), b"%d" % offset, contents))


def opened(blob: pa.Buffer) -> tuple[str, int, pa.Buffer]:
    """Return what was `enveloped`, without copying the contents."""
    name, offset, _ = bytes(blob.slice(0, min(blob.size, LONGEST_NAME))).split(b"\0", 2)
    return name.decode(), int(offset), blob.slice(len(name) + len(offset) + 2)
