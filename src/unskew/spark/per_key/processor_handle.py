"""What a stateful processor gets in its hands: Spark's `StatefulProcessorHandle`, for many keys at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.stateful_processor import ListState, MapState, StatefulProcessorHandle, ValueState
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError
from unskew.spark.per_key.state_variables import (
    DEADLINE,
    TIMERS,
    ListVariable,
    MapVariable,
    Timers,
    Turn,
    ValueVariable,
    Variable,
)
from unskew.state import Groups, KeyedState
from unskew.state.groups import Mask

Kind = Literal["value", "list", "map"]
KINDS: dict[Kind, type[ValueVariable | ListVariable | MapVariable]] = {
    "value": ValueVariable,
    "list": ListVariable,
    "map": MapVariable,
}
NO_TIME, PROCESSING_TIME, EVENT_TIME = "NoTime", "ProcessingTime", "EventTime"  # as Spark prints them


@dataclass(frozen=True)
class Described:
    """A state variable as a processor asked for it."""

    kind: Kind
    name: str
    schemas: tuple[StructType, ...]  # of its values; of a map, of its keys and its values
    ttl_ms: int | None
    deleted: bool = False  # init has asked for it and given it up again

    def made(self, turn: Turn) -> Variable:
        """Return the variable for the keys whose turn it is."""
        return KINDS[self.kind](self.name, turn, self.ttl_ms, *self.schemas)

    def __str__(self) -> str:
        inner = ", ".join(schema.simpleString() for schema in self.schemas)
        return f"{self.name}: {self.kind}<{inner}>{'' if self.ttl_ms is None else ' with expiry'}"


class ProcessorHandle(StatefulProcessorHandle):
    """Gives a processor its state variables, and its timers.

    Without variables known before, it learns them: schemas in words are then parsed, which takes a session.
    """

    def __init__(self, time_mode: str, known: tuple[Described, ...] | None = None, now_ms: int = 0) -> None:
        self.time_mode, self.now_ms = time_mode, now_ms
        self.stage = "CREATED"
        self.group: int | None = None
        self.described: dict[str, Described] = {}
        self._known = None if known is None else {each.name: each for each in known}
        self._timers = Timers(self)
        self._variables: dict[str, Variable] = {}

    def getValueState(  # noqa: N802
        self,
        stateName: str,  # noqa: N803
        schema: StructType | str,
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> ValueState:
        return self._variable("value", stateName, (schema,), ttlDurationMs)  # type: ignore[return-value]

    def getListState(  # noqa: N802
        self,
        stateName: str,  # noqa: N803
        schema: StructType | str,
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> ListState:
        return self._variable("list", stateName, (schema,), ttlDurationMs)  # type: ignore[return-value]

    def getMapState(  # noqa: N802
        self,
        stateName: str,  # noqa: N803
        userKeySchema: StructType | str,  # noqa: N803
        valueSchema: StructType | str,  # noqa: N803
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> MapState:
        return self._variable("map", stateName, (userKeySchema, valueSchema), ttlDurationMs)  # type: ignore[return-value]

    def deleteIfExists(self, stateName: str) -> None:  # noqa: N802, N803
        self._check_stage("deleting state", "delete_if_exists", "CREATED")
        if stateName in self._variables:
            self.described[stateName] = replace(self.described[stateName], deleted=True)
            self._variables.pop(stateName).deleted = True

    def registerTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803
        self._check_timers("register timer", "register_timer")
        self._timers.register(expiryTimestampMs)

    def deleteTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803
        self._check_timers("deleting timer", "delete_timer")
        self._timers.delete(expiryTimestampMs)

    def listTimers(self) -> Iterator[int]:  # noqa: N802
        self._check_timers("listing timers", "list_timers")
        return self._timers.listed()

    def variable(self, name: str) -> Variable | None:
        """Return a state variable that the processor has asked for, if there is one of that name."""
        return self._variables.get(name)

    def attach(self, held: pa.Table) -> None:
        """Begin with the state of some keys, one row each."""
        self._held = held
        for each in self._all:
            each.attach(held)

    def due_timers(self) -> list[tuple[int, int]]:
        """Return the timers that have come, as times and keys, in the order of the times; expired state is forgotten.

        What the calls for these timers register is for the next batch, as in Spark.
        """
        for each in self._all:
            if each.ttl_ms is not None:
                each.contents  # noqa: B018
        if self.time_mode == NO_TIME:
            return []
        timers = enumerate(self._timers.contents)
        return sorted((time, group) for group, times in timers for time in times or () if time <= self.now_ms)

    def results(self) -> tuple[pa.Table, Mask, Mask]:
        """Return the state of the keys, which of them have changed, and which have any state or timer."""
        self.group = None
        changed = np.zeros(self._held.num_rows, np.bool_)
        changed[list(set[int]().union(*(each.changed for each in self._all)))] = True
        there, columns = np.zeros(len(changed), np.bool_), dict[str, pa.Array]()
        for each in self._all:
            arrays = each.columns()
            there |= arrays[0].is_valid().to_numpy(zero_copy_only=False)
            columns |= dict(zip((field.name for field in each.fields), arrays, strict=True))
        if self.time_mode != NO_TIME:
            columns[DEADLINE] = self._deadlines()
        return pa.table(columns), changed, there

    def write(self, state: KeyedState, groups: Groups) -> None:
        """Write the keys that have changed, all at once. A key with nothing left is forgotten."""
        values, changed, there = self.results()
        if (changed & there).any():
            state.put(groups, values, where=changed & there)
        if (changed & ~there).any():
            state.remove(groups, where=changed & ~there)

    @property
    def _all(self) -> list[Variable]:
        if self.time_mode == NO_TIME and self._variables:
            return list(self._variables.values())
        return [*self._variables.values(), self._timers]  # state has at least one column

    def _deadlines(self) -> pa.Array:
        """Return when each key is due: the earliest of its timers and of what expires."""
        with_time = [each for each in self._all if each.ttl_ms is not None or each is self._timers]
        changed = set[int]().union(*(each.changed for each in with_time))
        deadlines = self._held.column(DEADLINE).combine_chunks()
        if not changed:
            return deadlines
        for each in with_time:
            each.contents  # noqa: B018
        place, times = sorted(changed), []
        for group in place:
            found = [time for each in with_time if (time := each.earliest(group)) is not None]
            times.append(min(found, default=None))
        mask = np.zeros(len(deadlines), np.bool_)
        mask[place] = True
        return pc.replace_with_mask(deadlines, pa.array(mask), pa.array(times, pa.int64()))

    def _variable(self, kind: Kind, name: str, schemas: tuple[StructType | str, ...], ttl_ms: int | None) -> Variable:
        doing = f"initializing {kind} state"
        self._check_stage(doing, f"get_{kind}_state", "CREATED")
        if name in self._variables:
            text = f"State variable with name {name} has already been defined in the StatefulProcessor."
            raise refusal(doing, "STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED", text)
        if ttl_ms:
            self._check_ttl(doing, name, ttl_ms)
        if self._known is None:
            parsed = tuple(map(parse, schemas))
        elif name in self._known and self._known[name].kind == kind:
            parsed = self._known[name].schemas
        else:
            raise ArgumentError(
                "init asks for other state here than on the driver",
                got=name,
                hint="ask for the same variables in every call of init",
            )
        if name in (TIMERS, DEADLINE):
            raise ArgumentError("this name is taken", where="state variable", got=name, hint="choose another one")
        self.described[name] = Described(kind, name, parsed, ttl_ms or None)
        self._variables[name] = self.described[name].made(self)
        return self._variables[name]

    def _check_ttl(self, doing: str, name: str, ttl_ms: int) -> None:
        if self.time_mode != PROCESSING_TIME:
            text = (
                f"Cannot use TTL for state={name} in timeMode={self.time_mode}, use TimeMode.ProcessingTime() instead."
            )
            raise refusal(doing, "STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL", text)
        if ttl_ms < 0:
            text = f"TTL duration must be greater than zero for State store operation=update on state={name}."
            raise refusal(doing, "STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE", text)

    def _check_timers(self, doing: str, operation: str) -> None:
        if self.time_mode == NO_TIME:
            text = f"Failed to perform stateful processor operation={operation} with invalid timeMode={self.time_mode}"
            raise refusal(doing, "STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE", text)
        self._check_stage(doing, operation, "INITIALIZED", "DATA_PROCESSED")

    def _check_stage(self, doing: str, operation: str, *stages: str) -> None:
        if self.stage not in stages:
            text = f"Failed to perform stateful processor operation={operation} with invalid handle state={self.stage}."
            raise refusal(doing, "STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE", text)


def refusal(doing: str, condition: str, text: str) -> PySparkRuntimeError:
    """Return the error that Spark raises in a processor."""
    return PySparkRuntimeError(f"Error {doing}: [{condition}] {text} SQLSTATE: 42802")


def parse(schema: StructType | str) -> StructType:
    """Return a schema that may be given in words; this takes a session."""
    return StructType.fromDDL(schema) if isinstance(schema, str) else schema  # type: ignore[return-value]
