"""Check an operator for the properties that the runtime relies on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from unskew.errors import ArgumentError, UnskewError
from unskew.operators import Operator
from unskew.testing.compare import Same
from unskew.testing.properties import PROPERTIES, Case

_ROWS_SHOWN = 12
_MOST_TRIES = 150

Batches = list[pa.Table]


class CheckError(UnskewError, AssertionError):
    """An operator lacks a property that the runtime relies on; `batches` is the smallest example found."""

    def __init__(self, operator: str, property_name: str, difference: str, batches: Sequence[pa.Table]) -> None:
        super().__init__(f"{operator}: it does not hold that {property_name}")
        self.property_name, self.difference, self.batches = property_name, difference, list(batches)

    def __str__(self) -> str:
        shown = "\n".join(_shown(number, batch) for number, batch in enumerate(self.batches))
        return f"{self.what}.\n{self.difference}\nSmallest example found:\n{shown}"


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
      in append mode.
    - State is stored under its key's own hash, and what is extracted is what is installed.
    - If the operator is mergeable, merging is associative, commutative if claimed, agrees with working on all rows at
      once, and ignores states that are all null.
    - A run in which keys and slots move between channels gives the same rows and state as one in which none do.
    - A batch that fails and runs again, and a restart, leave no trace.
    - Operators with a deadline in event time hold nothing once the watermark has passed. The state of operators that
      claim constant memory does not grow when the same rows come again.

    This takes about 25 runs over the batches; a few hundred rows show most faults. When a property fails, the check
    leaves out rows as long as it still fails, and the message shows what remains.

    Parameters
    ----------
    operator
        The operator, not bound yet.
    batches
        Rows to try it on: several batches, with keys that come back, and with nulls if the operator has to cope with
        them.
    key
        The key's column or columns.
    watermark
        Event-time column and delay, as in ``withWatermark("ts", "10 minutes")``, for operators in event time.
    tolerance
        Relative difference allowed between floats, because sums of floats depend on the order of rows.
    same
        Tells whether two tables of output rows agree, for operators such as sketches whose results are equal only
        within a bound. States are not compared then.
    channels
        How many channels keys move between.
    seeds
        How many random runs to try for each property.

    Examples
    --------
    >>> from unskew.operators import Aggregate
    >>> rows = pa.table({"user": ["ada", "bob", "ada"], "amount": [1.5, 2.0, None]})
    >>> check_operator(Aggregate(n="count", mean="mean(amount)"), [rows, rows], key="user")

    It catches an operator that forgets what it knew:

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
        raise ArgumentError("there are no rows to check the operator on", hint="give several batches with rows")
    names = (key,) if isinstance(key, str) else tuple(key)
    case = Case(operator, names, watermark, tolerance, same, channels, seeds)
    for name, differs in PROPERTIES.items():
        if differs(case, batches) is not None:
            example = smallest(batches, lambda tried, differs=differs: differs(case, tried) is not None)  # type: ignore[misc]
            raise CheckError(repr(operator), name, differs(case, example) or "", example)


def smallest(batches: Sequence[pa.Table], fails: Callable[[Batches], bool], tries: int = _MOST_TRIES) -> Batches:
    """Leave out batches, then shorter and shorter runs of rows, as long as what remains still fails."""
    found = list(batches)

    def becomes(candidate: Batches) -> bool:
        nonlocal found, tries
        if tries == 0 or not any(batch.num_rows for batch in candidate):
            return False
        tries -= 1
        smaller = fails(candidate)
        if smaller:
            found = candidate
        return smaller

    for number in reversed(range(len(found))):
        becomes(found[:number] + found[number + 1 :])
    length = max(batch.num_rows for batch in found)
    while length > 1:
        length = (length + 1) // 2
        for number in range(len(found)):
            start = 0
            while start < (rows := found[number]).num_rows:
                rest = pa.concat_tables([rows.slice(0, start), rows.slice(start + length)])
                if not becomes([*found[:number], rest, *found[number + 1 :]]):
                    start += length
    return found


def _shown(number: int, batch: pa.Table) -> str:
    lines = [f"  {row}" for row in batch.slice(0, _ROWS_SHOWN).to_pylist()] or ["  no rows"]
    more = [f"  and {batch.num_rows - _ROWS_SHOWN} more"] if batch.num_rows > _ROWS_SHOWN else []
    return "\n".join([f"batch {number}:", *lines, *more])
