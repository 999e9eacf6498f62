"""Medians and percentiles, exact and approximate."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray
from pyarrow import types

from unskew.errors import ArgumentError
from unskew.operators.aggregate_functions import is_number
from unskew.operators.aggregate_sets import Bag, Bags
from unskew.operators.base import Floats, Numbers
from unskew.operators.lists import spread_out, starts_of
from unskew.operators.reductions import take_rows
from unskew.state.index import fixed
from unskew.versions.percentiles import interpolated

_DEFAULT_ACCURACY = 10_000
_MOST_ACCURACY = 2**31 - 1
_NONE = -1
_MANY, _FEW = 4, 2


class Percentile(Bag):
    """``percentile(x, 0.9)``: the value below which nine tenths of the values lie, exactly, as in Spark.

    Between two values it is interpolated, in doubles, as Spark does: next to an infinite value it may be NaN.
    NaN is the greatest value.

    The state of a key is all its different values and how often each occurred, so it grows with them, without a bound.
    A batch reads and writes all values of the keys that it touches. ``percentile_approx`` keeps fewer.
    """

    most_options = 1
    fits = staticmethod(is_number)
    grows = True
    counters: ClassVar[tuple[str, ...]] = ("count",)
    spelling = "(x, p)"
    kind = pa.float64()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.percentage <= 1:
            hint = "a number from 0 to 1, such as 0.5 for the median"
            raise ArgumentError("this is not a percentage", where=self.name, got=self.option, hint=hint)

    @property
    def percentage(self) -> float:
        """The share of the values that lie below the result; NaN if it is not a number."""
        return _number(self.option)

    def finish(self, states: list[pa.Array]) -> pa.Array:
        values, starts = spread_out(states[0])
        up_to = starts_of(states[1].flatten().to_numpy())
        before, total = up_to[starts[:-1]], np.diff(up_to[starts])
        nothing = total == 0
        place = np.where(nothing, 0, total - 1) * self.percentage
        lower, higher = np.floor(place), np.ceil(place)
        low, high = (np.searchsorted(up_to[1:], before + at.astype(np.int64), side="right") for at in (lower, higher))
        least, most = (_doubles(take_rows(values, np.where(nothing, _NONE, at))) for at in (low, high))
        with np.errstate(invalid="ignore", over="ignore"):
            between = interpolated(least, most, place - lower)
        return pa.array(np.where(low == high, least, between), mask=nothing)


class Median(Percentile):
    """``median(x)``: the value in the middle, exactly; the same as ``percentile(x, 0.5)``."""

    most_options = 0
    spelling = "(x)"
    percentage = 0.5


def _has_ranks(kind: pa.DataType) -> bool:
    return is_number(kind) or types.is_date(kind) or types.is_timestamp(kind)


class PercentileApprox(Percentile):
    """``percentile_approx(x, 0.9)``: a value of the data that about nine tenths of the values do not exceed.

    Out of n values the one of rank ``ceil(p * n)`` is wanted. The result is a value of the data whose rank is off by at
    most ``n / accuracy``: Spark's guarantee. It holds for any data, any batches and any order of merges. You set the
    accuracy with ``percentile_approx(x, p, accuracy)``; it is 10,000 by default.

    The result is exact while a key has at most ``4 * accuracy`` different values. If it has at most `accuracy` values
    altogether, Spark's is exact, and both are equal. Beyond that, the result may depend on how rows came in batches.
    As in Spark, a p below ``1 / accuracy`` gives the least value, and one above ``1 - 1 / accuracy`` the greatest.

    The state is a summary like Greenwald and Khanna's: some of the values, in order, with two counters each. At least
    ``sum(up_to)`` values are at most x, summed over the entries up to and including x. At most ``sum(below)`` values
    are less than x, summed over the entries before x. A value that is left out hands its `up_to` to its right neighbour
    and its `below` to its left one, so both bounds stay true. Merging unites the values of summaries and adds up the
    counters of equal ones. The guarantee needs the bounds to differ by at most ``2 * floor(n / accuracy)`` from one
    entry to the next, and merging preserves that.

    When a key has more than ``4 * accuracy`` entries, values are left out until half as many remain, if the guarantee
    allows it. An entry takes its value and 16 bytes. No bound on the size is proven, since summaries may be merged in
    any order. For values that came batch by batch, at random, rising or ever closer to the median, we measured at most
    ``6 * accuracy`` entries; where a thousand summaries of equal size were merged two by two, ``17 * accuracy``.

    References
    ----------
    Greenwald and Khanna, Space-efficient online computation of quantile summaries, SIGMOD 2001; Power-conserving
    computation of order-statistics over sensor networks, PODS 2004 (merging).
    """

    most_options = 2
    fits = staticmethod(_has_ranks)
    grows = False
    counters = ("up_to", "below")
    spelling = "(x, p[, accuracy])"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.accuracy <= _MOST_ACCURACY:
            hint = "a whole number, by default 10000; the rank is off by at most n / accuracy"
            raise ArgumentError("this is not an accuracy", where=self.name, got=self.options[1], hint=hint)

    @property
    def accuracy(self) -> int:
        """The inverse of the relative error of the rank; 0 if it is not a whole number."""
        if len(self.options) < self.most_options:
            return _DEFAULT_ACCURACY
        return int(self.options[1]) if self.options[1].isdecimal() else 0

    @property
    def kind(self) -> pa.DataType:
        return self.columns[0].type

    def thinned(self, bags: Bags) -> Bags:
        if bags.lengths.max(initial=0) <= _MANY * self.accuracy:
            return bags
        up_to, below = (fixed(counter) for counter in bags.counters)
        kept, *counters, lengths = _kernel_thinned(up_to, below, fixed(bags.starts), self.accuracy)
        return Bags([column.take(pa.array(kept)) for column in bags.columns], counters, lengths)

    def finish(self, states: list[pa.Array]) -> pa.Array:
        values, starts = spread_out(states[0])
        up_to, below = (fixed(state.flatten().to_numpy()) for state in states[1:])
        return take_rows(values, _kernel_nearest(up_to, below, fixed(starts), self.percentage, 1 / self.accuracy))


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan


def _doubles(values: pa.Array) -> Floats:
    if types.is_decimal(values.type):
        values = values.cast(pa.string())  # text becomes the nearest double; Arrow's own way may miss it
    return np.asarray(values.cast(pa.float64(), safe=False).fill_null(0).to_numpy())


@njit(cache=True)
def _kernel_thinned(
    up_to: Numbers, below: Numbers, starts: Numbers, accuracy: int
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return the entries that stay, their counters, and how many each group has left."""
    kept, lengths = np.empty(len(up_to), np.int64), np.empty(len(starts) - 1, np.int64)
    new_up_to, new_below = np.empty(len(up_to), np.int64), np.empty(len(up_to), np.int64)
    begin = 0
    for group in range(len(lengths)):
        first, stop = starts[group], starts[group + 1]
        most = 2 * (up_to[first:stop].sum() // accuracy)
        step = max(1, most // 8)
        slack = min(step, most) if stop - first > _MANY * accuracy else 0
        while True:
            end, total, total_kept, total_below, handed_on = begin, 0, 0, 0, 0
            for place in range(first, stop):
                total += up_to[place]
                total_below += below[place]
                if slack and first < place < stop - 1 and total_below - total_kept <= slack:
                    handed_on += up_to[place]
                    new_below[end - 1] += below[place]
                else:
                    kept[end], new_up_to[end], new_below[end] = place, up_to[place] + handed_on, below[place]
                    total_kept, handed_on = total, 0
                    end += 1
            if slack in (0, most) or end - begin <= _FEW * accuracy:
                break
            slack = min(slack + step, most)
        lengths[group] = end - begin
        begin = end
    return kept[:begin].copy(), new_up_to[:begin].copy(), new_below[:begin].copy(), lengths


@njit(cache=True)
def _kernel_nearest(
    up_to: Numbers, below: Numbers, starts: NDArray[np.int32], percentage: float, error: float
) -> Numbers:
    """Return the entry of each group whose rank is off by the least, at worst; -1 where there is none."""
    places = np.full(len(starts) - 1, _NONE, np.int64)
    for group in range(len(places)):
        first, stop = starts[group], starts[group + 1]
        if first == stop:
            continue
        total = up_to[first:stop].sum()
        rank = max(1, math.ceil(percentage * total))
        if percentage <= error:
            rank = 1
        elif percentage >= 1 - error:
            rank = total
        at_most, less, least = 0, 0, total + 1
        for place in range(first, stop):
            at_most += up_to[place]
            off = max(0, less + 1 - rank, rank - at_most)
            if off < least:
                places[group], least = place, off
            less += below[place]
    return places
