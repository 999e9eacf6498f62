"""The calls of a per-key function in one batch of one channel: what goes in, what becomes of the state."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import ArgumentError, BatchError
from unskew.operators import Clock
from unskew.spark.per_key.plain_values import PlainValues, State, together
from unskew.state import Groups, KeyedState

STATE, TIMEOUT = "state", "timeout_ms"

_SCHEDULING = Path("/proc/thread-self/schedstat")  # Linux: nanoseconds this thread has run, and waited for a core

Seconds = NDArray[np.float64]


@dataclass(eq=False)
class KeyCalls:
    """Keys to call a function for, with one entry per group, and what the function made of them."""

    clock: Clock
    timed_out: bool  # the keys are called because they have timed out
    keys: list[tuple[Any, ...]]  # as the function gets them
    states: list[State | None]
    deadlines: list[int | None]
    seconds: list[float] = field(init=False)  # that each call took on the clock,
    processor_seconds: list[float] = field(init=False)  # and of the processor

    def __post_init__(self) -> None:
        self.seconds, self.processor_seconds = [0.0] * len(self.keys), [0.0] * len(self.keys)
        self._to_put, self._to_remove = bytearray(len(self.keys)), bytearray(len(self.keys))
        self._process = os.getpid()

    def stay(self) -> None:
        """End a copy of this process that the function forked; it would answer Spark a second time."""
        if os.getpid() != self._process:
            os._exit(0)

    def explained(self, group: int, error: BaseException) -> BaseException:
        """Return what a call raised, with the key that it was for."""
        self.stay()
        if not isinstance(error, _TooLong):
            error.add_note(self.describe(group))
            return error
        what, hint = f"a call took longer than {error.seconds} seconds", "find out what it waits for, or allow more"
        where = self.describe(group).removeprefix("in ")
        return BatchError(what, where=where, hint=f"{hint} with max_call_seconds=").with_traceback(error.__traceback__)

    def put(self, group: int, state: State | None, deadline_ms: int | None) -> None:
        """Give a group a new state, or none, and a new time at which it times out, or none."""
        self.states[group], self.deadlines[group] = state, deadline_ms
        self._to_put[group] = 1

    def remove(self, group: int) -> None:
        self._to_remove[group] = 1

    def write(self, state: KeyedState, groups: Groups, values: PlainValues, with_deadlines: bool) -> None:
        """Write what has changed, all groups at once."""
        put, removed = np.frombuffer(self._to_put, np.bool_), np.frombuffer(self._to_remove, np.bool_)
        if put.any():
            new = [each if wanted else None for each, wanted in zip(self.states, self._to_put, strict=True)]
            columns = {STATE: together(values.to_arrow, new, range(len(new)), self.describe)}
            if with_deadlines:
                columns[TIMEOUT] = pa.array(self.deadlines, pa.int64())
            state.put(groups, pa.table(columns), where=put)
        if removed.any():
            state.remove(groups, where=removed)

    def describe(self, group: int) -> str:
        """Say which call it is, for errors."""
        return described("the call", self.keys, self.clock, group)


class Blaming:
    """Adds to an error whose call it came from."""

    __slots__ = ("_describe", "_group")

    def __init__(self, describe: Callable[[int], str], group: int) -> None:
        self._describe, self._group = describe, group

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            error.add_note(self._describe(self._group))


def described(call: str, keys: Sequence[tuple[Any, ...]], clock: Clock, group: int) -> str:
    """Say which call it is, for errors."""
    parts = [repr(value.item() if isinstance(value, np.generic) else value) for value in keys[group]]
    key = parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
    return f"in {call} for key {key} of batch {clock.batch_id}"


def check_state(state: Any, fields: int) -> None:
    """Refuse what a function gives as a state and is none."""
    if not isinstance(state, (tuple, list)) or len(state) != fields:
        raise ArgumentError("a state is a tuple with one value for each field", got=state, hint=f"give {fields}")


class _TooLong(BaseException):  # no Exception, which the function may catch
    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds


class Limit:
    """Ends what takes longer than some seconds, even if it waits; code that does not return to Python runs on."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        if self._seconds is not None:
            self._before = signal.signal(signal.SIGALRM, self._ring)
            signal.setitimer(signal.ITIMER_REAL, self._seconds, self._seconds)  # again, if it is caught

    def __exit__(self, *_: object) -> None:
        if self._seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)

    def _ring(self, *_: object) -> None:
        raise _TooLong(self._seconds)


class Demand:
    """Takes the time that a thread has waited for a core out of the times of its calls.

    With more tasks than cores, a call's time on the clock says more about the other tasks than about the key. What a
    call waits for otherwise (a service, a disk) stays in. Linux tells the wait of all calls together; each gets its
    part by the processor time that it used. Elsewhere times stay as they were measured.
    """

    def __init__(self) -> None:
        self._ran, self._queued = thread_time(), _queued_seconds()

    def of_calls(self, seconds: Seconds, processor_seconds: Seconds) -> Seconds:
        """Return what each call took by itself, from its times on the clock and on the processor."""
        ran, queued = thread_time() - self._ran, _queued_seconds() - self._queued
        waited = queued * processor_seconds / max(ran, 1e-9)
        return np.maximum(seconds - waited, np.minimum(processor_seconds, seconds))


def _queued_seconds() -> float:
    try:
        return int(_SCHEDULING.read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
