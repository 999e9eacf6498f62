"""How much of its state each channel may hold in its local copy."""

from __future__ import annotations

from collections.abc import Sequence

from unskew.errors import ArgumentError, require_number


def memory_budgets(memory_bytes: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return a budget for each channel; the last one holds for all channels beyond. Empty means no limit.

    >>> memory_budgets(1000), memory_budgets([1, 2, 3]), memory_budgets(None)
    ((1000,), (1, 2, 3), ())
    """
    if memory_bytes is None:
        return ()
    budgets = tuple(memory_bytes) if isinstance(memory_bytes, (list, tuple)) else (memory_bytes,)
    if not budgets:
        raise ArgumentError("memory_bytes must be one number, or one for each channel", where="memory_bytes", got=())
    for each in budgets:
        require_number("memory_bytes", each, 0)
    return budgets
