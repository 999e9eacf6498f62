"""The Arrow form of a sketch: int64 columns, and the rest as JSON in the schema's metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import FormatError
from unskew.sketches.base import LEAST_SHARE, MOST_TUPLES

FORMAT = 1
METADATA = b"unskew.sketch"

Held = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]  # hashes, counts and slacks of the entries


def table(columns: Mapping[str, NDArray[np.int64]]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def ranked(names: Sequence[str], held: Held, chosen: NDArray[np.bool_] | None = None) -> pa.Table:
    """Make a table of the (chosen) entries, the most frequent first, equal counts by hash."""
    hash_of, count, slack = held if chosen is None else (column[chosen] for column in held)
    order = np.lexsort((hash_of, -count))
    return table(dict(zip(names, (hash_of[order], count[order], slack[order]), strict=True)))


def pack(kind: str, columns: Mapping[str, NDArray[np.int64]], parameters: Mapping[str, object]) -> pa.Table:
    header = {"format": FORMAT, "kind": kind, **parameters}
    return table(columns).replace_schema_metadata({METADATA: json.dumps(header).encode()})


def unpack(packed: pa.Table, kind: str, columns: Sequence[str]) -> tuple[dict[str, Any], list[NDArray[np.int64]]]:
    """Return the parameters and columns of a packed sketch, or raise `FormatError` if it is not of this kind."""
    raw = (packed.schema.metadata or {}).get(METADATA)
    try:
        header = json.loads(raw) if raw is not None else None
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise FormatError("this table is not a sketch", where=f"metadata {METADATA.decode()}", hint="use to_arrow()")
    if header.get("kind") != kind:
        raise FormatError(f"this table is not a sketch of the kind {kind}", got=header.get("kind"))
    version = whole(header, "format")
    if version > FORMAT:
        raise FormatError(f"this sketch has a newer format than {FORMAT}", got=version, hint="upgrade unskew")
    arrays = []
    for name in columns:
        field = packed.schema.get_field_index(name)
        require(field >= 0, f"the column {name} is missing", packed.schema.names)
        column = packed.column(field)
        require(column.type == pa.int64(), f"the column {name} is not int64", str(column.type))
        require(column.null_count == 0, f"the column {name} has nulls", column.null_count)
        arrays.append(column.to_numpy())
    return header, arrays


def whole(header: Mapping[str, Any], name: str) -> int:
    value = header.get(name)
    require(isinstance(value, int) and 0 <= value <= MOST_TUPLES, f"{name} is not a whole number", value)
    return int(value)  # type: ignore[arg-type]


def share(header: Mapping[str, Any], name: str) -> float:
    value = header.get(name)
    require(isinstance(value, int | float) and LEAST_SHARE <= value <= 1, f"{name} is not a share", value)
    return float(value)  # type: ignore[arg-type]


def check_entries(hash_of: NDArray[np.int64], count: NDArray[np.int64], n: int) -> None:
    require(len(np.unique(hash_of)) == len(hash_of), "a hash appears twice")
    require(bool((count >= 1).all()), "a count is less than 1")
    require(sum(count.tolist()) <= n, "the counts add up to more than n", n)


def require(condition: bool, what: str, got: object = None) -> None:
    if not condition:
        raise FormatError(what, where="the sketch's table", got=got)
