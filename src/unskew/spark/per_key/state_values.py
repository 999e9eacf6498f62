"""State between two batches: tuples of Python values in a function's hands, one Arrow struct column at rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

State = tuple[Any, ...]


class StateValues(ABC):
    """Converts states of many keys at once, column by column.

    Parameters
    ----------
    kind
        The struct that a state is.
    """

    def __init__(self, kind: pa.StructType) -> None:
        self.kind = kind

    @abstractmethod
    def column_to_python(self, column: pa.Array, position: int) -> list[Any]:
        """Return a field of many states as a function gets it."""

    @abstractmethod
    def column_to_arrow(self, values: Sequence[Any], position: int) -> pa.Array:
        """Return a field of many states, as a function gave it, as Arrow keeps it."""

    def to_python(self, states: pa.StructArray) -> list[State | None]:
        """Return states as tuples; None where there is none."""
        there = states.drop_null()
        columns = [self.column_to_python(column, i) for i, column in enumerate(there.flatten())]
        tuples: list[State | None] = list(zip(*columns, strict=True)) if columns else [()] * len(there)
        if not states.null_count:
            return tuples
        spread: list[State | None] = [None] * len(states)
        for place, state in zip(np.flatnonzero(states.is_valid()).tolist(), tuples, strict=True):
            spread[place] = state
        return spread

    def to_arrow(self, states: Sequence[State | None]) -> pa.StructArray:
        """Return tuples, or None, as a column."""
        blank = (None,) * self.kind.num_fields
        absent = pa.array([state is None for state in states], pa.bool_())
        rows = zip(*[blank if state is None else state for state in states], strict=True)
        columns = [self.column_to_arrow(column, i) for i, column in enumerate(rows)]
        if not columns:
            columns = [pa.nulls(len(states), field.type) for field in self.kind]
        return pa.StructArray.from_arrays(columns, fields=list(self.kind), mask=absent)
