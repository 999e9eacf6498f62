"""Test a stateful processor key by key, without a stream: Spark's `TwsTester`, on the code that runs in a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.errors import IllegalArgumentException, PySparkAssertionError, PySparkValueError
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError
from unskew.hashing import hash_keys
from unskew.spark.local_session import session
from unskew.spark.per_key.processor import NEVER, TIME_MODES, value_schema
from unskew.spark.per_key.processor_handle import EVENT_TIME, NO_TIME, PROCESSING_TIME, Kind, ProcessorHandle
from unskew.spark.per_key.state_variables import DEADLINE, ListVariable, MapVariable, ValueVariable, Variable
from unskew.state import KeyedState, MemoryStore
from unskew.state.groups import Groups

KEY = pa.schema({"number": pa.int64()})
SLOTS = 8


class TwsTester:
    """Runs a `StatefulProcessor` for one key at a time, with the interface of Spark's own `TwsTester`.

    State, timers and expiry are those of a query under unskew: values are converted as there, what Spark refuses in a
    query is refused, and a call that fails leaves nothing behind. So a few processors pass Spark's tester and not this
    one: those that would fail in a stream. State with a time to live expires when `setProcessingTime` passes its time.

    Only a session of Spark's can read schemas in words: if none is running, a local one is started, which takes some
    seconds. With a `StructType` no session is needed.

    Parameters
    ----------
    processor
        The processor. Its ``init`` is called once, on the object itself.
    initialStateRow, initialStatePandas
        Pairs of a key and a row, or of a key and a frame, for ``handleInitialState``; one of the two.
    timeMode
        ``"None"``, ``"ProcessingTime"`` or ``"EventTime"``. Both clocks begin at 0 and stand still until they are set.
    outputMode
        Taken for Spark's sake; it changes nothing.
    eventTimeExtractor
        Gives the event time of a row in milliseconds; needed for ``"EventTime"``. Rows at or before the watermark are
        late and left out.

    Examples
    --------
    >>> from pyspark.sql.types import LongType, StructType
    >>> class Count(StatefulProcessor):
    ...     def init(self, handle):
    ...         self.count = handle.getValueState("count", StructType().add("n", LongType()))
    ...
    ...     def handleInputRows(self, key, rows, timerValues):
    ...         (before,) = self.count.get() or (0,)
    ...         self.count.update((before + len(list(rows)),))
    ...         yield Row(user=key[0], n=self.count.get()[0])
    >>> tester = TwsTester(Count())
    >>> tester.test("ada", [Row(amount=1), Row(amount=2)])
    [Row(user='ada', n=2)]
    >>> tester.updateValueState("count", "bob", (7,))
    >>> tester.test("bob", [Row(amount=1)]), tester.peekValueState("count", "ada")
    ([Row(user='bob', n=8)], (2,))
    """

    def __init__(
        self,
        processor: StatefulProcessor,
        initialStateRow: Iterable[tuple[Any, Row]] | None = None,  # noqa: N803
        initialStatePandas: Iterable[tuple[Any, pd.DataFrame]] | None = None,  # noqa: N803
        timeMode: str = "None",  # noqa: N803
        outputMode: str = "Append",  # noqa: N803
        eventTimeExtractor: Callable[[Any], int] | None = None,  # noqa: N803
    ) -> None:
        if timeMode.lower() not in TIME_MODES:
            hint = "one of None, ProcessingTime, EventTime"
            raise ArgumentError("there is no such time mode", got=timeMode, hint=hint)
        self._time_mode = TIME_MODES[timeMode.lower()][0]
        if self._time_mode == EVENT_TIME and eventTimeExtractor is None:
            needed = {"arg_name": "eventTimeExtractor", "condition": "timeMode is EventTime"}
            raise PySparkValueError(errorClass="ARGUMENT_REQUIRED", messageParameters=needed)
        if initialStateRow is not None and initialStatePandas is not None:
            raise AssertionError("Cannot specify both Row and Pandas initial states.")
        self.processor, self._event_time = processor, eventTimeExtractor
        self.handle = _Handle(self._time_mode)
        processor.init(self.handle)
        self.handle.stage = "INITIALIZED"
        values = value_schema(self.handle.described.values(), self._time_mode)
        deadline = None if self._time_mode == NO_TIME else DEADLINE
        self._state = KeyedState.open(MemoryStore(), KEY, values, slots=SLOTS, deadline=deadline)
        self._numbers: dict[Any, int] = {}  # which stand for keys in the state, in the order in which they came
        self._pandas = initialStatePandas is not None
        for key, initial in initialStateRow or initialStatePandas or ():
            self._call(key, lambda key=key, initial=initial: processor.handleInitialState((key,), initial, self._now))  # type: ignore[misc]

    def test(self, key: Any, input: list[Row]) -> list[Row]:
        """Give rows of a key to the processor; return the rows that it yields."""
        self._pandas = False
        rows = [row for row in input if not self._is_late(row)]
        return self._call(key, lambda: list(self.processor.handleInputRows((key,), iter(rows), self._now)))  # type: ignore[no-any-return]

    def testInPandas(self, key: Any, input: pd.DataFrame) -> pd.DataFrame:  # noqa: N802
        """Give a frame of a key to the processor; return the frames that it yields as one."""
        self._pandas = True
        late = [self._is_late(row) for _, row in input.iterrows()] if self._time_mode == EVENT_TIME else []
        rows = input[~np.array(late)].reset_index(drop=True) if any(late) else input
        return _joined(self._call(key, lambda: list(self.processor.handleInputRows((key,), iter([rows]), self._now))))

    def setProcessingTime(self, currentTimeMs: int) -> list[Row] | pd.DataFrame:  # noqa: N802, N803
        """Set the clock; return what the processor yields for the timers that have come."""
        return self._set_time(PROCESSING_TIME, currentTimeMs, "setProcessingTime", "Processing time")

    def setWatermark(self, currentWatermarkMs: int) -> list[Row] | pd.DataFrame:  # noqa: N802, N803
        """Set the watermark; return what the processor yields for the timers that have come."""
        return self._set_time(EVENT_TIME, currentWatermarkMs, "setWatermark", "Watermark")

    def updateValueState(self, stateName: str, key: Any, value: tuple[Any, ...]) -> None:  # noqa: N802, N803
        """Set the value that a key has."""
        self._call(key, lambda: self._variable(stateName, ValueVariable).update(value))

    def peekValueState(self, stateName: str, key: Any) -> tuple[Any, ...] | None:  # noqa: N802, N803
        """Return the value that a key has, or None."""
        return self._call(key, lambda: self._variable(stateName, ValueVariable).get())  # type: ignore[no-any-return]

    def updateListState(self, stateName: str, key: Any, value: list[tuple[Any, ...]]) -> None:  # noqa: N802, N803
        """Set the list that a key has; an empty one clears it."""

        def update() -> None:
            variable = self._variable(stateName, ListVariable)
            variable.clear()
            if value:
                variable.put(value)

        self._call(key, update)

    def peekListState(self, stateName: str, key: Any) -> list[tuple[Any, ...]]:  # noqa: N802, N803
        """Return the list that a key has."""
        return self._call(key, lambda: list(self._variable(stateName, ListVariable).get()))  # type: ignore[no-any-return]

    def updateMapState(  # noqa: N802
        self,
        stateName: str,  # noqa: N803
        key: Any,
        value: dict[tuple[Any, ...], tuple[Any, ...]],
    ) -> None:
        """Set the map that a key has; an empty one clears it."""

        def update() -> None:
            variable = self._variable(stateName, MapVariable)
            variable.clear()
            for map_key, map_value in value.items():
                variable.updateValue(map_key, map_value)

        self._call(key, update)

    def peekMapState(self, stateName: str, key: Any) -> dict[tuple[Any, ...], tuple[Any, ...]]:  # noqa: N802, N803
        """Return the map that a key has."""
        return self._call(key, lambda: dict(self._variable(stateName, MapVariable).iterator()))  # type: ignore[no-any-return]

    def deleteState(self, stateName: str, key: Any) -> None:  # noqa: N802, N803
        """Clear one state of a key."""
        variable = self.handle.variable(stateName)
        if variable is None:
            raise PySparkAssertionError(errorClass="STATE_NOT_EXISTS", messageParameters={})
        self._call(key, variable.clear)

    @property
    def _now(self) -> TimerValues:
        if self._time_mode == NO_TIME:
            return TimerValues(NEVER, NEVER)
        if self._time_mode == PROCESSING_TIME:
            return TimerValues(self.handle.now_ms, NEVER)
        return TimerValues(0, self.handle.now_ms)

    def _is_late(self, row: Any) -> bool:
        if self._time_mode != EVENT_TIME or self._event_time is None:
            return False
        return self._event_time(row) <= self.handle.now_ms

    def _variable(self, name: str, kind: type[Any]) -> Any:
        variable = self.handle.variable(name)
        assert isinstance(variable, kind), f"State {name} has not been initialized."
        return variable

    def _call(self, key: Any, function: Callable[[], Any]) -> Any:
        """Call a function that uses the state of a key, and keep what it changes."""
        number = self._numbers.setdefault(key, len(self._numbers))
        rows = pa.table({"number": [number]}, schema=KEY)
        groups = self._state.group(rows, hash_keys(rows, "number"))
        self.handle.attach(self._state.get(groups)[0])
        self.handle.group = 0
        result = function()
        self.handle.write(self._state, groups)
        return result

    def _set_time(self, mode: str, now_ms: int, method: str, what: str) -> list[Row] | pd.DataFrame:
        if self._time_mode != mode:
            other = {"operation": f"{method} with TimeMode other than {mode}"}
            raise PySparkValueError(errorClass="UNSUPPORTED_OPERATION", messageParameters=other)
        if now_ms <= self.handle.now_ms:
            raise IllegalArgumentException(
                f"{what} must move forward. Current: {self.handle.now_ms} ms, provided: {now_ms} ms."
            )
        self.handle.now_ms = now_ms
        yielded = [result for each in self._timers() for result in each]
        return _joined(yielded) if self._pandas else yielded

    def _timers(self) -> Iterator[list[Any]]:
        """Call the processor for the timers that have come, key by key, and forget what has expired."""
        groups: Groups = self._state.due(self.handle.now_ms)
        self.handle.attach(self._state.get(groups)[0])
        numbers, keys = groups.keys.column("number").to_pylist(), list(self._numbers)
        for time, group in sorted(self.handle.due_timers(), key=lambda due: (numbers[due[1]], due[0])):
            self.handle.group, key = group, (keys[numbers[group]],)
            yield list(
                self.processor.handleExpiredTimer(
                    key=key, timerValues=self._now, expiredTimerInfo=ExpiredTimerInfo(time)
                )
            )
            self.handle.deleteTimer(time)
        self.handle.write(self._state, groups)


class _Handle(ProcessorHandle):
    """Refuses timers of the past in event time, as Spark's tester does; in a stream they come at once."""

    def _variable(self, kind: Kind, name: str, schemas: tuple[StructType | str, ...], ttl_ms: int | None) -> Variable:
        if any(isinstance(each, str) for each in schemas) and SparkSession.getActiveSession() is None:
            session()  # only Spark can read them
        return super()._variable(kind, name, schemas, ttl_ms)

    def registerTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803
        if self.time_mode == EVENT_TIME and expiryTimestampMs <= self.now_ms:
            raise IllegalArgumentException(
                f"Cannot register timer with expiry {expiryTimestampMs} ms "
                f"which is not later than the current watermark {self.now_ms} ms."
            )
        super().registerTimer(expiryTimestampMs)


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
