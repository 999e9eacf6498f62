"""Variances and standard deviations, in one pass over the batches."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from unskew.hashing.buffers import fixed_width
from unskew.operators.aggregate_functions import Result
from unskew.operators.reductions import Mask, Numbers, valid_rows
from unskew.state.groups import Groups
from unskew.state.index import fixed

Floats = NDArray[np.float64]


class CentralMoments(Result):
    """Number, mean and sum of squared deviations, from which variances follow.

    Stable: deviations are taken from the mean, never from zero. Agrees with Spark's to about 1e-12, relatively; both
    depend on the order of the rows in their last digits.

    References
    ----------
    Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances, 1979.
    """

    @property
    def kind(self) -> pa.DataType:
        """A double, whatever the values are."""
        return pa.float64()

    @property
    def state(self) -> list[pa.Field]:
        """Number of values, their mean, the sum of their squared deviations from it."""
        return [
            pa.field(f"{self.name}.count", pa.int64()),
            pa.field(f"{self.name}.mean", pa.float64()),
            pa.field(f"{self.name}.squares", pa.float64()),
        ]

    def lift(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Take the moments of values."""
        values = columns[0] if columns[0].type == pa.float64() else columns[0].cast(pa.float64(), safe=False)
        numbers = fixed_width(values, np.dtype(np.float64))
        return _arrays(_kernel_moments(numbers, valid_rows(values), fixed(groups.group_of_row), len(groups)))

    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Put moments together; a state that is null counts for nothing."""
        count, mean, squares = (state.fill_null(0).to_numpy() for state in states)
        moments = fixed(count), fixed(mean), fixed(squares)
        return _arrays(_kernel_merge(*moments, fixed(groups.group_of_row), len(groups)))

    def finish(self, states: list[pa.Array]) -> pa.Array:
        """Return the variance, null where there are too few values."""
        count, squares = states[0].to_numpy(), states[2].to_numpy()
        enough = count > self.fewer
        with np.errstate(invalid="ignore"):
            return pa.array(self.shown(squares / np.maximum(count - self.fewer, 1)), mask=~enough)

    def sql(self, *columns: str) -> list[str]:
        value = f"double({columns[0]})"
        squares = f"var_pop({value}) * count({value})"
        return [f"count({value})", f"coalesce(avg({value}), 0D)", f"coalesce({squares}, 0D)"]

    @property
    @abstractmethod
    def fewer(self) -> int:
        """What is taken from the number of values in the divisor."""

    def shown(self, variance: Floats) -> Floats:
        """Return what is shown of a variance."""
        return variance


class VarPop(CentralMoments):
    """The variance of a population: divided by the number of values."""

    fewer = 0


class VarSamp(CentralMoments):
    """The variance of a sample: divided by one less than the number of values; null for a single one."""

    fewer = 1


class StddevPop(VarPop):
    """The square root of the variance of a population."""

    def shown(self, variance: Floats) -> Floats:
        """Take the root."""
        return np.sqrt(variance)


class StddevSamp(VarSamp):
    """The square root of the variance of a sample."""

    def shown(self, variance: Floats) -> Floats:
        """Take the root."""
        return np.sqrt(variance)


def _arrays(moments: tuple[NDArray[Any], ...]) -> list[pa.Array]:
    return [pa.array(each) for each in moments]


@njit(cache=True)
def _kernel_moments(values: Floats, valid: Mask, group_of_row: Numbers, groups: int) -> tuple[Numbers, Floats, Floats]:
    """Return number, mean and sum of squared deviations per group, in two passes."""
    count, mean, squares = np.zeros(groups, np.int64), np.zeros(groups), np.zeros(groups)
    for row in range(len(values)):
        if valid[row]:
            group = group_of_row[row]
            count[group] += 1
            mean[group] += values[row]
    for group in range(groups):
        if count[group]:
            mean[group] /= count[group]
    for row in range(len(values)):
        if valid[row]:
            group = group_of_row[row]
            deviation = values[row] - mean[group]
            squares[group] += deviation * deviation
    return count, mean, squares


@njit(cache=True)
def _kernel_merge(
    counts: Numbers, means: Floats, squares: Floats, group_of_row: Numbers, groups: int
) -> tuple[Numbers, Floats, Floats]:
    """Put the moments of each group's rows together, one after the other."""
    count, mean, square = np.zeros(groups, np.int64), np.zeros(groups), np.zeros(groups)
    for row in range(len(counts)):
        added = counts[row]
        if added:
            group = group_of_row[row]
            before, total = count[group], count[group] + added
            if before == 0:
                mean[group], square[group] = means[row], squares[row]
            else:
                deviation = means[row] - mean[group]
                mean[group] += deviation * (added / total)
                square[group] += squares[row] + deviation * deviation * (before * (added / total))
            count[group] = total
    return count, mean, square
