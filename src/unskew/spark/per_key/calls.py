"""The calls of a per-key function in one batch of one channel: what goes in, what becomes of the state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.operators import Clock
from unskew.spark.per_key.state_values import State, StateValues
from unskew.state import Groups, KeyedState

STATE, TIMEOUT = "state", "timeout_ms"


@dataclass(eq=False)
class KeyCalls:
    """Keys to call a function for, with their state before, and what it made of them.

    Parameters
    ----------
    clock
        Time of the batch.
    timed_out
        Whether the keys are called because their time has come.
    keys, states, deadlines
        One entry per group: the key as the function gets it, its state or None, when it times out or None.

    The other fields are filled call by call: `seconds` and `processor_seconds` that each took, and with `put` and
    `remove` what is to be written.
    """

    clock: Clock
    timed_out: bool
    keys: list[tuple[Any, ...]]
    states: list[State | None]
    deadlines: list[int | None]
    seconds: list[float] = field(init=False)
    processor_seconds: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.seconds, self.processor_seconds = [0.0] * len(self.keys), [0.0] * len(self.keys)
        self._to_put, self._to_remove = bytearray(len(self.keys)), bytearray(len(self.keys))

    def put(self, group: int, state: State | None, deadline_ms: int | None) -> None:
        """Give a group a new state, or none, and a new time at which it times out, or none."""
        self.states[group], self.deadlines[group] = state, deadline_ms
        self._to_put[group] = 1

    def remove(self, group: int) -> None:
        self._to_remove[group] = 1

    def write(self, state: KeyedState, groups: Groups, values: StateValues, with_deadlines: bool) -> None:
        """Write what has changed, all groups at once."""
        put, removed = _mask(self._to_put), _mask(self._to_remove)
        if put.any():
            new = [each if wanted else None for each, wanted in zip(self.states, self._to_put, strict=True)]
            columns = {STATE: self._to_arrow(new, values)}
            if with_deadlines:
                columns[TIMEOUT] = pa.array(self.deadlines, pa.int64())
            state.put(groups, pa.table(columns), where=put)
        if removed.any():
            state.remove(groups, where=removed)

    def describe(self, group: int) -> str:
        """Say which call it is, for errors."""
        return f"in the call for key {_readable(self.keys[group])} of batch {self.clock.batch_id}"

    def _to_arrow(self, states: list[State | None], values: StateValues) -> pa.Array:
        try:
            return values.to_arrow(states)
        except Exception:
            for group, state in enumerate(states):  # state by state, so that the error tells whose it is
                try:
                    values.to_arrow([state])
                except Exception as error:
                    error.add_note(self.describe(group))
                    raise
            raise


def _mask(flags: bytearray) -> NDArray[np.bool_]:
    return np.frombuffer(flags, np.bool_)


def _readable(key: tuple[Any, ...]) -> str:
    parts = [repr(value.item() if isinstance(value, np.generic) else value) for value in key]
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
