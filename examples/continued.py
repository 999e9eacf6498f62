"""Takes the state of a balanced query back to Spark alone. Needs nothing of unskew where it runs.

spark_alone = events.groupBy("user").transformWithState(
    statefulProcessor=Continued(Sessions()),
    initialState=unskew.read_state(spark, "/checkpoints/sessions-balanced").groupBy("user"),
    ...
)
"""

# ruff: noqa: N802, N803 (Spark's names)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor


class Continued(StatefulProcessor):
    """Begins with a row of ``unskew.read_state`` for each key. For the rest it is the processor that it is given.

    It takes rows or pandas frames, as the processor does. State with a time to live begins a new life.
    """

    def __init__(self, processor: StatefulProcessor) -> None:
        self.processor = processor

    def init(self, handle: Any) -> None:
        self.handle = Remembering(handle)
        self.processor.init(self.handle)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        held = initialState.to_dict("records")[0] if hasattr(initialState, "to_dict") else initialState.asDict()
        for name, (kind, state) in self.handle.states.items():
            content = held.get(name)
            if content is None:
                continue
            if kind == "value":
                state.update(as_tuple(content))
            elif kind == "list":
                state.appendList([as_tuple(element) for element in content])
            else:
                for entry in content:
                    key_and_value = as_tuple(entry)
                    state.updateValue(as_tuple(key_and_value[0]), as_tuple(key_and_value[1]))
        timers = held.get("timers_ms")
        for time in () if timers is None else timers:
            self.handle.registerTimer(int(time))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        yield from self.processor.handleInputRows(key, rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield from self.processor.handleExpiredTimer(key, timerValues, expiredTimerInfo)

    def close(self) -> None:
        self.processor.close()


class Remembering:
    """Spark's handle, which remembers the state variables that it has given."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.states: dict[str, tuple[str, Any]] = {}

    def getValueState(self, stateName: str, *schema: Any, **more: Any) -> Any:
        return self._remember("value", stateName, self.handle.getValueState(stateName, *schema, **more))

    def getListState(self, stateName: str, *schema: Any, **more: Any) -> Any:
        return self._remember("list", stateName, self.handle.getListState(stateName, *schema, **more))

    def getMapState(self, stateName: str, *schemas: Any, **more: Any) -> Any:
        return self._remember("map", stateName, self.handle.getMapState(stateName, *schemas, **more))

    def _remember(self, kind: str, name: str, state: Any) -> Any:
        self.states[name] = (kind, state)
        return state

    def __getattr__(self, name: str) -> Any:
        return getattr(self.handle, name)


def as_tuple(struct: Any) -> tuple[Any, ...]:
    """Return a struct as a tuple; Spark gives it as a row, or as a dictionary in pandas frames."""
    return tuple(struct.values() if isinstance(struct, dict) else struct)
