"""Instants in keys and values of a state: the time zone in which somebody shows them is no part of the state."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from unskew.errors import CheckpointError
from unskew.hashing import hash_keys
from unskew.state import KeyedState, LocalCache, MemoryStore
from unskew.state.cache import CachePlace

NOON = datetime(2024, 7, 1, 12, tzinfo=UTC)


def schemas(zone: str | None) -> tuple[pa.Schema, pa.Schema]:
    instant = pa.timestamp("us", zone)
    nested = pa.struct({"list": pa.list_(instant), "map": pa.map_(pa.string(), pa.struct({"x": instant}))})
    return pa.schema({"at": instant}), pa.schema({"last": instant, "nested": nested})


def put(store: MemoryStore, zone: str, place: CachePlace | None, hour: int) -> None:
    keys, values = schemas(zone)
    rows = pa.table({"at": [NOON.replace(hour=hour)]}, schema=keys)
    instant = NOON.replace(minute=hour)
    nested = {"list": [instant, None], "map": [("a", {"x": instant})]}
    with KeyedState.open(store, keys, values, slots=4, cache=place) as state:
        held = pa.table({"last": [instant], "nested": [nested]}, schema=values)
        state.put(state.group(rows, hash_keys(rows, "at")), held)
        state.commit(f"hour-{hour}")


def contents(store: MemoryStore, zone: str, place: CachePlace | None) -> dict[datetime, tuple[Any, ...]]:
    with KeyedState.open(store, *schemas(zone), slots=4, cache=place) as state:
        rows = [row for table in state.scan() for row in table.to_pylist()]
    return {row["key.at"]: (row["value.last"], row["value.nested"]["list"][0]) for row in rows}


@pytest.mark.parametrize("cached", [True, False])
def test_a_state_opens_under_another_zone(tmp_path: Path, cached: bool) -> None:
    """Written in three zones, and read in a fourth, with a local copy and without one."""
    store = MemoryStore()
    place = LocalCache(tmp_path, 1 << 30).place("query", 0) if cached else None
    for hour, zone in ((1, "Etc/UTC"), (2, "Etc/UTC"), (2, "Europe/Berlin"), (3, "UTC")):
        put(store, zone, place, hour)
    expected = {NOON.replace(hour=hour): (NOON.replace(minute=hour),) * 2 for hour in (1, 2, 3)}
    assert contents(store, "America/New_York", place) == expected


def test_state_that_moved_under_another_zone_is_installed() -> None:
    store = MemoryStore()
    put(store, "Etc/UTC", None, 1)
    with KeyedState.open(store, *schemas("Etc/UTC"), slots=4) as state:
        moved = state.select(slots=range(4))
    other = MemoryStore()
    with KeyedState.open(other, *schemas("Europe/Berlin"), slots=4) as state:
        state.install(moved)
        state.commit("installed")
    assert contents(other, "UTC", None) == contents(store, "UTC", None) != {}


def test_times_without_a_zone_are_other_columns() -> None:
    store = MemoryStore()
    put(store, "UTC", None, 1)
    with pytest.raises(CheckpointError, match="has other columns"):
        KeyedState.open(store, *schemas(None), slots=4)
