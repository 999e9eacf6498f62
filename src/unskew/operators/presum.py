"""Partial states that Spark computes itself, in SQL, before a row reaches Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ORDER_COLUMN = "__unskew_order"  # the place of a row in its batch, for aggregates that depend on it


@dataclass(frozen=True)
class Presum:
    """One row per group in SQL, made by Spark's generated code in place of `Operator.combine`.

    Spark adds up before its shuffle, so a hot key is one row per partition, and only groups are turned into Arrow, not
    rows. `Operator.from_presum` turns these groups into combined rows.
    """

    groups: Mapping[str, str] = field(default_factory=dict)  # name and SQL of further columns to group by
    states: tuple[str, ...] = ()  # SQL of each column of partial state; `state_column` names them
    ordered: bool = False  # whether the SQL reads `ORDER_COLUMN`

    @property
    def columns(self) -> dict[str, str]:
        """Name and SQL of each column of partial state."""
        return {state_column(number): sql for number, sql in enumerate(self.states)}


def state_column(number: int) -> str:
    """Return the name of a column of partial state; no user's column has such a name."""
    return f"__unskew_state_{number}"


def quoted(name: str) -> str:
    """Return a column's name quoted for SQL, dots and backticks included."""
    return f"`{name.replace('`', '``')}`"
