"""Processors whose keys, values and map keys have all kinds of types: what they see is told in full."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from native_jobs.case import TOLD, Case, events, told

ALL = (
    "b byte, s short, i int, l long, f float, x double, d decimal(10, 2), t string, y binary, o boolean, day date, "
    "at timestamp, ntz timestamp_ntz"
)
SOME: tuple[tuple[Any, ...], ...] = (
    (
        1,
        2,
        3,
        4,
        0.1,
        0.1,
        Decimal("1.50"),
        "x",
        b"xyz",
        True,
        date(2024, 2, 29),
        datetime(2024, 1, 2, 3),
        datetime.min.replace(year=1900),
    ),
    (
        -128,
        -1,
        2**31 - 1,
        -(2**63),
        -0.0,
        math.inf,
        Decimal("-0.01"),
        "",
        b"",
        False,
        date(1, 1, 1),
        datetime(1970, 1, 1),
        datetime(2024, 3, 10, 2, 30),
    ),
    (None,) * 13,
    (
        1,
        2,
        3,
        4,
        math.nan,
        -0.0,
        Decimal("12345678.99"),
        "\0é🙂",
        b"\0\xff",
        None,
        None,
        datetime(2024, 7, 1, 0, 0, 0, 1),
        None,
    ),
)


def every_kind(seed: int, null: bool) -> list[pa.Table]:
    """Return batches with a column of each of several types; keys come again.

    Without `null`, numbers are never null: as pandas' keys of integers with a null among them become floats, Spark then
    takes all of them for null, and calls the processor more than once for a null that is a float.
    """
    rng = np.random.default_rng(seed)
    made = []
    for batch in range(4):
        n = rng.integers(0, 4, 16)
        columns = {
            "day": pa.array([None if k == 3 else int(k) for k in n], pa.int32()).cast(pa.date32()),
            "at": pa.array((60 * batch + n) * 1_000_000 + 1).cast(pa.timestamp("us", "UTC")),
            "price": pa.array([Decimal(int(k)) / 4 for k in n], pa.decimal128(6, 2)),
            "share": pa.array([(0.5, -1.25, math.inf, None if null else 9.0)[k] for k in n], pa.float64()),
            "small": pa.array([(1, -1, 7, None if null else 9)[k] for k in rng.integers(0, 4, 16)], pa.int16()),
            "flag": pa.array([(True, False, None, True)[k] for k in n]),
            "raw": pa.array([(b"a", b"", b"\0", None)[k] for k in n], pa.binary()),
            "amount": pa.array(rng.integers(0, 9, 16)),
        }
        made.append(pa.table(columns))
    return made


class TypedKeys(StatefulProcessor):
    """Tells its key, in calls with rows and for timers, and how many rows it had."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.n = handle.getValueState("n", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        n = (self.n.get() or (0,))[0] + sum(len(frame) for frame in rows)
        self.n.update((n,))
        self.handle.registerTimer(5)
        yield pd.DataFrame({"told": [repr((key, [type(each).__name__ for each in key], n))]})

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"told": [repr(("timer", key, [type(each).__name__ for each in key], self.n.get()))]})


class TypedKeysByRow(TypedKeys):
    """The same with rows."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        n = (self.n.get() or (0,))[0] + len(list(rows))
        self.n.update((n,))
        self.handle.registerTimer(5)
        yield Row(told=repr((key, [type(each).__name__ for each in key], n)))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield Row(told=repr(("timer", key, [type(each).__name__ for each in key], self.n.get())))


class TypedState(StatefulProcessor):
    """Puts values of every type into state of every kind, the limits of the types among them."""

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("value", ALL)
        self.list = handle.getListState("list", ALL)
        self.map = handle.getMapState("map", "n int", ALL)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        n = sum(len(frame) for frame in rows)
        before = self.value.get(), list(self.list.get())[-2:], sorted(self.map.iterator(), key=repr)
        some = SOME[n % len(SOME)]
        self.value.update(some)
        self.list.appendValue(some)
        self.map.updateValue((n % len(SOME),), some)
        yield told(key, before, self.value.get(), self.map.getValue((n % len(SOME),)))


class TypedMapKeys(StatefulProcessor):
    """Has maps whose keys are lists, structs, bytes, numbers with a sign or none, dates and nulls."""

    KINDS = {  # noqa: RUF012
        "lists": ("k array<int>", [([1, 2],), ([],), ([None, 1],), ([1, 2],)]),
        "structs": ("k struct<a: int, b: string>", [((1, "x"),), ((1, None),), ((1, "x"),)]),
        "bytes": ("k binary", [(b"a",), (b"",), (b"a",)]),
        "doubles": ("k double", [(0.0,), (-0.0,), (1.5,), (math.nan,), (math.nan,), (1.5,)]),
        "decimals": ("k decimal(6, 2)", [(Decimal("1.5"),), (Decimal("1.50"),), (Decimal(0),)]),
        "dates": ("k date, t timestamp", [(date(2024, 1, 1), None), (None, datetime(2024, 1, 1)), (None, None)]),
        "flags": ("k boolean", [(True,), (False,), (None,), (True,)]),
        "small": ("k byte", [(1,), (257,), (-1,)]),
    }

    def init(self, handle: Any) -> None:
        self.maps = {name: handle.getMapState(name, kind, "n int") for name, (kind, _) in self.KINDS.items()}

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        n = sum(len(frame) for frame in rows)
        for name, held in self.maps.items():
            for map_key in self.KINDS[name][1]:
                before = held.getValue(map_key)
                held.updateValue(map_key, (n if before is None else before.n + n,))
            known = [held.containsKey(map_key) for map_key in self.KINDS[name][1]]
            if n % 3 == 0:
                held.removeKey(self.KINDS[name][1][0])
            shown = sorted(held.iterator(), key=repr), sorted(held.keys(), key=repr), known
            yield told(key, name, shown)


class AsGiven(StatefulProcessor):
    """Updates state with what is no tuple of Python's own values: lists, rows, NumPy's and pandas' values."""

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("value", "n int, x double, t string, l array<long>, m map<string, double>")
        self.list = handle.getListState("list", "n long, t string")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        before = self.value.get(), list(self.list.get())[-4:]
        for frame in rows:
            self.value.update([np.int32(3), np.float64(0.5), "t", [1, 2], {"a": 1.0}])
            self.list.appendValue(Row(n=1, t="row"))
            self.list.appendList([(frame["amount"].max(), frame["what"].iloc[0]), [2, None], (np.int64(3), 5)])
        yield told(key, before, self.value.get(), list(self.list.get())[-4:])


TYPED = {"time_mode": "ProcessingTime", "output": "told string"}

CASES = {
    **{
        f"keys of type {name}": Case(
            TypedKeys, key=tuple(name.split(", ")), batches=partial(every_kind, 1, False), **TYPED
        )
        for name in ("day", "at, small", "price", "share, flag", "raw")
    },
    **{
        f"keys of type {name}, by row": Case(
            TypedKeysByRow, key=tuple(name.split(", ")), by_row=True, batches=partial(every_kind, 2, True), **TYPED
        )
        for name in ("day, at", "price, share", "small, flag, raw")
    },
    "typed state": Case(TypedState, batches=partial(events, 81)),
    "typed map keys": Case(TypedMapKeys, batches=partial(events, 82)),
    "state as given": Case(AsGiven, TOLD, batches=partial(events, 83)),
}
