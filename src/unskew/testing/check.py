"""What every operator must satisfy, whatever it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from unskew.errors import ArgumentError, UnskewError
from unskew.operators import Operator
from unskew.testing.compare import Same
from unskew.testing.properties import PROPERTIES, Case
from unskew.testing.smallest import smallest

_ROWS_SHOWN = 12


class CheckError(UnskewError, AssertionError):
    """An operator lacks a property that the runtime relies on.

    Parameters
    ----------
    operator
        What was checked, as text.
    property_name
        Which property failed.
    difference
        How it failed.
    batches
        The smallest example that was found.
    """

    def __init__(self, operator: str, property_name: str, difference: str, batches: Sequence[pa.Table]) -> None:
        super().__init__(f"{operator}: it does not hold that {property_name}")
        self.property_name, self.difference, self.batches = property_name, difference, list(batches)

    def __str__(self) -> str:
        shown = "\n".join(_shown(number, batch) for number, batch in enumerate(self.batches))
        return f"{self.what}.\n{self.difference}\nSmallest example found:\n{shown}"


@dataclass(frozen=True)
class _Check:
    """One property of one operator, as a function of the batches."""

    case: Case
    differs: Callable[[Case, Sequence[pa.Table]], str | None]

    def __call__(self, batches: Sequence[pa.Table]) -> str | None:
        return self.differs(self.case, batches)


def check_operator(
    operator: Operator,
    batches: Sequence[pa.Table],
    *,
    key: str | Sequence[str],
    watermark: tuple[str, str] | None = None,
    tolerance: float = 1e-9,
    same: Same | None = None,
    channels: int = 3,
    seeds: int = 3,
) -> None:
    """Raise `CheckError` unless an operator has every property that the runtime relies on.

    - The same rows in other batches give the same result: the last rows of each `output_key` in update mode, all rows
      in append mode. Time passes with the batches that were given.
    - State lies under its key's own hash, and what is extracted is what is installed.
    - Merging is associative, commutative where claimed, agrees with working on all rows at once, and passes over
      states that are all null. Only where the operator is mergeable.
    - A run in which keys and slots move, on several channels, gives the rows and the state of a run in which none do.
    - A batch that fails and runs again, and a restart, leave no trace.
    - When the watermark has passed, nothing is left of operators with a deadline in event time. State of operators that
      say their memory is constant does not grow when the same rows come again and again.

    Costs about 25 runs over the batches; a few hundred rows show most faults. When a property fails, rows are left out
    as long as it still fails, and the message shows what remains.

    Parameters
    ----------
    operator
        Not bound yet.
    batches
        Rows to try it on: several batches, with keys that come back, with nulls if the operator has to bear them.
    key
        The key's column or columns.
    watermark
        Column of the event time and delay, as in ``withWatermark("ts", "10 minutes")``, for operators in event time.
    tolerance
        By how much floats may differ, relatively; sums of floats depend on the order of rows.
    same
        Tells whether two tables of output rows say the same, for operators whose results are equal only within a bound,
        such as sketches. States are not compared then.
    channels
        How many channels keys move between.
    seeds
        How many random runs to try for each property.

    Examples
    --------
    >>> from unskew.operators import Aggregate
    >>> rows = pa.table({"user": ["ada", "bob", "ada"], "amount": [1.5, 2.0, None]})
    >>> check_operator(Aggregate(n="count", mean="mean(amount)"), [rows, rows], key="user")

    An operator that forgets what it knew is found out:

    >>> class Forgetful(Aggregate):
    ...     def update(self, state, groups, rows, clock):
    ...         state.remove(groups)
    ...         return super().update(state, groups, rows, clock)
    >>> try:
    ...     check_operator(Forgetful(n="count"), [rows, rows], key="user")
    ... except CheckError as error:
    ...     print(error)
    Aggregate(n='count'): it does not hold that the same rows in other batches give the same result.
    expected {'user': 'ada', 'n': 2}
    got      {'user': 'ada', 'n': 1}
    Smallest example found:
    batch 0:
      {'user': 'ada', 'amount': 1.5}
      {'user': 'ada', 'amount': None}
    """
    if not batches or not any(batch.num_rows for batch in batches):
        raise ArgumentError("there are no rows to check an operator on", hint="give several batches with rows")
    names = (key,) if isinstance(key, str) else tuple(key)
    case = Case(operator, names, watermark, tolerance, same, channels, seeds)
    for name, differs in PROPERTIES.items():
        check = _Check(case, differs)
        if check(batches) is not None:
            example = smallest(batches, lambda tried, check=check: check(tried) is not None)  # type: ignore[misc]
            raise CheckError(repr(operator), name, check(example) or "", example)


def _shown(number: int, batch: pa.Table) -> str:
    lines = [f"  {row}" for row in batch.slice(0, _ROWS_SHOWN).to_pylist()] or ["  no rows"]
    more = [f"  and {batch.num_rows - _ROWS_SHOWN} more"] if batch.num_rows > _ROWS_SHOWN else []
    return "\n".join([f"batch {number}:", *lines, *more])
