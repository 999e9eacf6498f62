"""What Spark can add up by itself before a row reaches Python: SQL for the partial states of a batch's keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ORDER_COLUMN = "__unskew_order"
"""The place of a row in its batch, where an aggregate depends on it."""


@dataclass(frozen=True)
class Presum:
    """One row per group in SQL, made by Spark's generated code in place of `Operator.combine`.

    Spark adds up before its shuffle, so a hot key is one row per partition, and only groups are turned into Arrow, not
    rows. `Operator.from_presum` makes combined rows of these groups.

    Parameters
    ----------
    groups
        Columns that the rows are grouped by, besides the key: name and SQL.
    states
        SQL of each column of partial state; `state_column` names them.
    ordered
        Whether the SQL reads `ORDER_COLUMN`.

    Examples
    --------
    >>> Presum(states=("count(*)", "sum(`amount`)")).columns
    {'__unskew_state_0': 'count(*)', '__unskew_state_1': 'sum(`amount`)'}
    """

    groups: Mapping[str, str] = field(default_factory=dict)
    states: tuple[str, ...] = ()
    ordered: bool = False

    @property
    def columns(self) -> dict[str, str]:
        """Name and SQL of each column of partial state."""
        return {state_column(number): sql for number, sql in enumerate(self.states)}


def state_column(number: int) -> str:
    """Return the name of a column of partial state, which no column of a user's has."""
    return f"__unskew_state_{number}"


def quoted(name: str) -> str:
    """Return a column's name as SQL takes it, dots and backticks included.

    >>> quoted("a.b")
    '`a.b`'
    """
    return f"`{name.replace('`', '``')}`"
