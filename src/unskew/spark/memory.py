"""How much of its state each channel may hold beside the state store."""

from __future__ import annotations

from collections.abc import Sequence

from unskew.errors import ArgumentError


def memory_budgets(memory_bytes: int | Sequence[int] | None, channels: int) -> tuple[int, ...]:
    """Return a budget for each channel; none at all where there is no limit.

    Examples
    --------
    >>> memory_budgets(1000, channels=3), memory_budgets([1, 2, 3], channels=3), memory_budgets(None, channels=3)
    ((1000, 1000, 1000), (1, 2, 3), ())
    """
    if memory_bytes is None:
        return ()
    budgets = (memory_bytes,) * channels if isinstance(memory_bytes, int) else tuple(memory_bytes)
    if len(budgets) != channels or min(budgets) < 0:
        raise ArgumentError(
            f"memory is one number of bytes, or one for each of {channels} channels", where="memory_bytes", got=budgets
        )
    return budgets
