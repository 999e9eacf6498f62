"""Histograms of a column per key in a fixed number of bins that follow the data."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from pyarrow import types

from unskew.errors import ArgumentError, require_number
from unskew.operators.base import Floats, Mergeable, Numbers, require_column
from unskew.operators.lists import concatenated
from unskew.operators.ranking import ranked
from unskew.state.groups import Groups

CENTRES, COUNTS = "centres", "counts"


class Histogram(Mergeable):
    """Keeps a histogram of at most `bins` bins of a column's values per key: where each bin lies and what it holds.

    A value that is not a bin's centre becomes a bin of its own. While there are more than `bins`, the two that lie
    closest together become one at their weighted mean. A histogram with fewer bins than allowed is exact. Nulls, NaN
    and infinite values are passed over. No bound on the error holds for all data. Merging partial histograms changes
    the result as another order of the rows would.

    Costs O(bins) per row, and O(bins ** 2) per key and batch to merge.

    Parameters
    ----------
    column
        A column of numbers.
    bins
        The most bins to keep.

    References
    ----------
    Ben-Haim and Tom-Tov, A streaming parallel decision tree algorithm, JMLR 11, 2010, section 2.1.
    Nasir et al., Partial Key Grouping, section 4.4.

    Examples
    --------
    >>> from unskew.testing import run
    >>> rows = pa.table({"shop": ["a"] * 7, "price": [23, 19, 10, 16, 36, 2, 9]})
    >>> result = run(Histogram("price", bins=5), [rows.slice(0, 5), rows.slice(5)], key="shop")
    >>> result.outputs[0].to_pylist()
    [{'shop': 'a', 'centres': [10.0, 16.0, 19.0, 23.0, 36.0], 'counts': [1, 1, 1, 1, 1]}]
    >>> result.outputs[1].to_pylist()
    [{'shop': 'a', 'centres': [2.0, 9.5, 17.5, 23.0, 36.0], 'counts': [1, 2, 2, 1, 1]}]
    """

    memory = "constant"
    value_schema = pa.schema({CENTRES: pa.list_(pa.float64()), COUNTS: pa.list_(pa.int64())})

    def __init__(self, column: str, *, bins: int = 50) -> None:
        require_number("bins", bins)
        if bins < 1:
            raise ArgumentError("a histogram has at least one bin", got=bins)
        self.column, self.bins = column, bins

    def __repr__(self) -> str:
        return f"Histogram({self.column!r}, bins={self.bins})"

    def check(self) -> None:
        super().check()
        require_column(self.input_schema, self.column, _is_number, "a histogram works on numbers")

    @property
    def columns_needed(self) -> tuple[str, ...]:
        return (self.column,)

    def lift(self, rows: pa.Table, groups: Groups) -> pa.Table:
        values = rows.column(self.column).combine_chunks().cast(pa.float64(), safe=False)
        filled = np.array(pc.fill_null(values, np.nan))
        return self._as_lists(*_kernel_histograms(filled, groups.order, groups.starts, self.bins))

    def merge(self, values: pa.Table, groups: Groups) -> pa.Table:
        (centres, part), (counts, _) = (
            concatenated(values.column(name).combine_chunks()) for name in (CENTRES, COUNTS)
        )
        flat_centres, flat_counts = centres.to_numpy(), counts.to_numpy()
        order, starts = ranked(groups.group_of_row[part], len(groups), flat_centres, flat_counts)
        return self._as_lists(*_kernel_shrunk(flat_centres[order], flat_counts[order], starts, self.bins))

    def _as_lists(self, centres: Floats, counts: Numbers, starts: Numbers) -> pa.Table:
        offsets = pa.array(starts, pa.int32())
        lists = [pa.ListArray.from_arrays(offsets, pa.array(flat)) for flat in (centres, counts)]
        return pa.Table.from_arrays(lists, schema=self.value_schema)


def _is_number(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind))


@njit(cache=True)
def kernel_insert(centres: Floats, counts: Numbers, used: int, value: float, bins: int) -> int:
    """Add a value to the first `used` bins, for one more of which there is room; returns how many are used then.

    Ben-Haim and Tom-Tov, algorithm 1.
    """
    place = np.searchsorted(centres[:used], value)
    if place < used and centres[place] == value:
        counts[place] += 1
        return used
    for i in range(used, place, -1):
        centres[i], counts[i] = centres[i - 1], counts[i - 1]
    centres[place], counts[place] = value, 1
    return kernel_shrink(centres, counts, used + 1, bins)


@njit(cache=True)
def kernel_shrink(centres: Floats, counts: Numbers, used: int, bins: int) -> int:
    """Fuse the two bins that lie closest together, the first of several such, until `bins` are left."""
    while used > bins:
        closest, gap = 0, np.inf
        for i in range(used - 1):
            if centres[i + 1] - centres[i] < gap:
                closest, gap = i, centres[i + 1] - centres[i]
        total = counts[closest] + counts[closest + 1]
        # from the left centre on, so that two equal centres stay what they are
        centres[closest] += gap * (counts[closest + 1] / total)
        counts[closest] = total
        for i in range(closest + 1, used - 1):
            centres[i], counts[i] = centres[i + 1], counts[i + 1]
        used -= 1
    return used


@njit(cache=True)
def kernel_sum(centres: Floats, counts: Numbers, value: float, exact: bool) -> float:
    """Estimate how many values are at most `value`.

    Where bins were fused, half of a bin lies on each side of its centre, and between two centres lies a trapezium
    (Ben-Haim and Tom-Tov, algorithm 3). Where none were (`exact`), whole bins are counted.
    """
    if exact or len(centres) < 2:
        return float(counts[: np.searchsorted(centres, value, side="right")].sum())
    if value < centres[0]:
        return 0.0
    if value >= centres[-1]:
        return float(counts.sum())
    i = np.searchsorted(centres, value, side="right") - 1
    share = (value - centres[i]) / (centres[i + 1] - centres[i])
    height = counts[i] + (counts[i + 1] - counts[i]) * share
    return float(counts[:i].sum() + counts[i] / 2 + (counts[i] + height) / 2 * share)


@njit(cache=True)
def kernel_uniform(centres: Floats, counts: Numbers, parts: int) -> Floats:
    """Return places that cut the values into `parts` parts of about equal number: rising, some perhaps equal.

    Ben-Haim and Tom-Tov, algorithm 4.
    """
    cuts = np.empty(parts - 1)
    sums = np.cumsum(counts) - counts / 2.0
    total = counts.sum()
    for part in range(1, parts):
        wanted = total * part / parts
        i = np.searchsorted(sums, wanted, side="right") - 1
        if i < 0 or i >= len(centres) - 1:
            cuts[part - 1] = centres[0] if i < 0 else centres[-1]
            continue
        # the place where the trapezium between two centres has the area that is missing
        missing, rise = wanted - sums[i], float(counts[i + 1] - counts[i])
        if rise == 0:
            share = missing / counts[i]
        else:
            share = (np.sqrt(counts[i] * counts[i] + 2 * rise * missing) - counts[i]) / rise
        cuts[part - 1] = centres[i] + (centres[i + 1] - centres[i]) * min(1.0, share)
    return cuts


@njit(cache=True)
def _kernel_histograms(values: Floats, order: Numbers, starts: Numbers, bins: int) -> tuple[Floats, Numbers, Numbers]:
    """Return the bins of each group, one group after the other, and where each group starts."""
    groups = len(starts) - 1
    room = 0
    for group in range(groups):
        room += min(bins, starts[group + 1] - starts[group])
    all_centres, all_counts = np.empty(room), np.empty(room, np.int64)
    new_starts = np.zeros(groups + 1, np.int64)
    centres, counts = np.empty(bins + 1), np.empty(bins + 1, np.int64)
    for group in range(groups):
        used = 0
        for i in range(starts[group], starts[group + 1]):
            if np.isfinite(values[order[i]]):
                used = kernel_insert(centres, counts, used, values[order[i]], bins)
        place = new_starts[group]
        all_centres[place : place + used], all_counts[place : place + used] = centres[:used], counts[:used]
        new_starts[group + 1] = place + used
    return all_centres[: new_starts[-1]], all_counts[: new_starts[-1]], new_starts


@njit(cache=True)
def _kernel_shrunk(centres: Floats, counts: Numbers, starts: Numbers, bins: int) -> tuple[Floats, Numbers, Numbers]:
    """Join equal centres of each group, shrink what is left, and return it as `_kernel_histograms` does."""
    new_starts = np.zeros(len(starts), np.int64)
    place = 0
    for group in range(len(starts) - 1):
        first = place
        for i in range(starts[group], starts[group + 1]):
            if place > first and centres[place - 1] == centres[i]:
                counts[place - 1] += counts[i]
            else:
                centres[place], counts[place] = centres[i], counts[i]
                place += 1
        place = first + kernel_shrink(centres[first:place], counts[first:place], place - first, bins)
        new_starts[group + 1] = place
    return centres[:place], counts[:place], new_starts
