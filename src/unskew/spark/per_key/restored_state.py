"""A table of state, one row per key, given to a processor's state variables and timers."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pyarrow as pa
from pyarrow import types

from unskew.errors import ArgumentError, ColumnError
from unskew.operators.base import beside_key, require_state
from unskew.operators.lists import one_array
from unskew.spark.per_key.processor_handle import Described, ProcessorHandle
from unskew.spark.per_key.spark_values import SparkValues
from unskew.spark.per_key.state_variables import DEADLINE, TIMERS, cut_up, expiry_column


def columns_for(
    variables: tuple[Described, ...], timed: bool, key: tuple[str, ...], schema: pa.Schema
) -> tuple[str, ...]:
    """Return the columns of a table of state that fill these variables and timers.

    A variable without a column begins empty, as in Spark after a processor got a new one. A column that no variable
    takes, or that has other fields, is refused: it would be lost.
    """
    require_state(schema, key)
    fields = {each.name: tuple(schema.names for schema in each.schemas) for each in variables}
    expiring = [expiry_column(each.name) for each in variables if each.ttl_ms is not None]
    taken = {beside_key(name, key) for name in (*fields, *expiring, *([TIMERS] if timed else []))}
    lost = [name for name in schema.names if name not in (*key, *taken, beside_key(DEADLINE, key))]
    if lost:
        raise ColumnError(
            "the processor has no such state, so it would be lost",
            got=lost[0],
            hint=f"it has {', '.join(map(str, variables))}; drop the column if you no longer need it",
        )
    for each in variables:
        name, expiry = (beside_key(column, key) for column in (each.name, expiry_column(each.name)))
        if name in schema.names:
            if _field_names(each.kind, schema.field(name).type) != fields[each.name]:
                got = str(schema.field(name).type)
                raise ColumnError(f"this is not the state {each}", where=f"column {name!r}", got=got)
            if each.ttl_ms is not None and expiry not in schema.names:
                hint = f"add the column {expiry}"
                raise ColumnError("this state expires, and the table does not say when", where=name, hint=hint)
    return tuple(name for name in schema.names if name in taken)


def restore(
    handle: ProcessorHandle, variables: tuple[Described, ...], key: tuple[str, ...], nothing: pa.Table, rows: pa.Table
) -> None:
    """Let the keys of the rows have the state that the rows tell; `nothing` is the state of as many new keys."""
    state: dict[str, Any] = {each.name: _variable(handle, each) for each in variables}
    handle.stage = "INITIALIZED"
    handle.attach(nothing)
    for each in variables:
        if beside_key(each.name, key) in rows.column_names:
            held = one_array(rows.column(beside_key(each.name, key)))
            expiries = [None] * len(rows)
            if each.ttl_ms is not None:
                expiries = rows.column(beside_key(expiry_column(each.name), key)).to_pylist()
            _FILL[each.kind](handle, state[each.name], each, held, expiries)
    if beside_key(TIMERS, key) in rows.column_names:
        for handle.group, timers in enumerate(rows.column(beside_key(TIMERS, key)).to_pylist()):
            for time in timers or ():
                handle.registerTimer(time)


def _variable(handle: ProcessorHandle, each: Described) -> Any:
    get = {"value": handle.getValueState, "list": handle.getListState, "map": handle.getMapState}[each.kind]
    return get(each.name, *each.schemas, each.ttl_ms)  # type: ignore[operator]


def _values(handle: ProcessorHandle, state: Any, each: Described, held: pa.Array, expiries: list[Any]) -> None:
    for handle.group, value in enumerate(_to_python(each, 0, held)):
        if value is not None:
            _set_time(handle, each, expiries[handle.group])
            state.update(value)


def _lists(handle: ProcessorHandle, state: Any, each: Described, held: pa.Array, expiries: list[Any]) -> None:
    for handle.group, elements in enumerate(cut_up(_to_python(each, 0, held.flatten()), held)):
        times = expiries[handle.group] or [None] * len(elements or ())
        for time, pairs in groupby(zip(times, elements or (), strict=True), key=_first):
            _set_time(handle, each, time)
            state.appendList([element for _, element in pairs])


def _maps(handle: ProcessorHandle, state: Any, each: Described, held: pa.Array, expiries: list[Any]) -> None:
    keys, values = held.flatten().flatten()
    entries = list(zip(_to_python(each, 0, keys), _to_python(each, 1, values), strict=True))
    for handle.group, pairs in enumerate(cut_up(entries, held)):
        times = expiries[handle.group] or [None] * len(pairs or ())
        for time, (key, value) in zip(times, pairs or (), strict=True):
            _set_time(handle, each, time)
            state.updateValue(key, value)


_FILL = {"value": _values, "list": _lists, "map": _maps}


def _set_time(handle: ProcessorHandle, each: Described, expires_ms: int | None) -> None:
    """Let what is written next expire at this time."""
    if expires_ms is not None and each.ttl_ms is not None:
        handle.now_ms = expires_ms - each.ttl_ms


def _to_python(each: Described, number: int, held: pa.Array) -> list[Any]:
    values = SparkValues(each.schemas[number])
    try:
        return values.to_python(held.cast(values.kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        what = f"the initial state does not fit {each}: {error}"
        raise ArgumentError(what, where=f"column {each.name!r}", got=str(held.type)) from None


def _field_names(kind: str, column: pa.DataType) -> tuple[list[str], ...]:
    """Return the fields of the structs that a variable's column consists of."""
    element = column
    if kind != "value":
        element = column.value_type if types.is_list(column) else pa.null()
    parts = [element] if kind != "map" or not types.is_struct(element) else [field.type for field in element]
    return tuple([field.name for field in part] if types.is_struct(part) else [] for part in parts)


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]
