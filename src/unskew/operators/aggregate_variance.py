"""Variances and standard deviations, in one pass over the batches."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
from numba import njit

from unskew.hashing.buffers import fixed_width
from unskew.operators.aggregate_functions import Result
from unskew.operators.base import Floats, Mask, Numbers
from unskew.operators.reductions import valid_rows
from unskew.state.groups import Groups
from unskew.state.index import fixed


class VarPop(Result):
    """The variance of a population: the sum of squared deviations divided by the number of values.

    The state is the number of values, their mean, and the sum of squared deviations from it. Deviations are taken from
    the mean, never from zero, so the result is stable. It agrees with Spark's to about 1e-12, relatively; both depend
    on the order of the rows in their last digits.

    References
    ----------
    Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances, 1979.
    """

    kind = pa.float64()
    fewer: ClassVar[int] = 0  # what is subtracted from the number of values in the divisor
    root: ClassVar[bool] = False

    @property
    def state(self) -> list[pa.Field]:
        kinds = {"count": pa.int64(), "mean": pa.float64(), "squares": pa.float64()}
        return [pa.field(f"{self.name}.{part}", kind) for part, kind in kinds.items()]

    def lift(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        values = columns[0] if columns[0].type == pa.float64() else columns[0].cast(pa.float64(), safe=False)
        numbers = fixed_width(values, np.float64)
        moments = _kernel_moments(numbers, valid_rows(values), fixed(groups.group_of_row), len(groups))
        return [pa.array(each) for each in moments]

    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
        count, mean, squares = (fixed(state.fill_null(0).to_numpy()) for state in states)
        moments = _kernel_merge(count, mean, squares, fixed(groups.group_of_row), len(groups))
        return [pa.array(each) for each in moments]

    def finish(self, states: list[pa.Array]) -> pa.Array:
        count, squares = states[0].to_numpy(), states[2].to_numpy()
        with np.errstate(invalid="ignore"):
            variance = squares / np.maximum(count - self.fewer, 1)
            return pa.array(np.sqrt(variance) if self.root else variance, mask=count <= self.fewer)

    def sql(self, *columns: str) -> list[str]:
        value = f"double({columns[0]})"
        squares = f"var_pop({value}) * count({value})"
        return [f"count({value})", f"coalesce(avg({value}), 0D)", f"coalesce({squares}, 0D)"]


class VarSamp(VarPop):
    """The variance of a sample: divided by one less than the number of values; null for a single one."""

    fewer = 1


class StddevPop(VarPop):
    """The square root of the variance of a population."""

    root = True


class StddevSamp(VarSamp):
    """The square root of the variance of a sample."""

    root = True


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
