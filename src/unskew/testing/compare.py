"""Compare tables: the same rows in any order, floats within a tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

Same = Callable[[pa.Table, pa.Table], bool]  # tells whether expected and actual output rows agree


def difference(expected: pa.Table, got: pa.Table, tolerance: float, by: Sequence[str] = ()) -> str | None:
    """Return the first row that differs, in words, or None if the tables hold the same rows.

    Floats may differ by a relative `tolerance`. Rows are matched by the columns `by`, or by all columns without floats.
    """
    rest = _by_match(got, by)
    for match, rows in _by_match(expected, by).items():
        others = rest.pop(match, [])
        for number, row in enumerate(rows):
            other = others[number] if number < len(others) else None
            if other is None or not alike(row, other, tolerance):
                return f"expected {row}\ngot      {'no such row' if other is None else other}"
        if len(others) > len(rows):
            rest[match] = others[len(rows) :]
    for rows in rest.values():
        return f"expected no such row\ngot      {rows[0]}"
    return None


def alike(left: Any, right: Any, tolerance: float) -> bool:
    """Tell whether two values are equal, floats within a relative tolerance. NaN equals NaN."""
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or math.isclose(left, right, rel_tol=tolerance, abs_tol=0.0)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(alike(left[name], right[name], tolerance) for name in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(alike(*pair, tolerance) for pair in zip(left, right, strict=True))
    return bool(left == right)


def _by_match(table: pa.Table, by: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Group rows by the values they are matched by, each group in a canonical order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(table.to_pylist(), key=repr):
        names = by or [name for name, value in row.items() if not _has_float(value)]
        found.setdefault(repr([row[name] for name in names]), []).append(row)
    return found


def _has_float(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_float, value.values()))
    return any(map(_has_float, value)) if isinstance(value, (list, tuple)) else isinstance(value, float)
