"""Processors with keys, state and output of unusual shapes, and with state to begin with, after Spark's own tests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from native_jobs.case import HOUR_MS, TOLD, Case, events, told


class Nested(StatefulProcessor):
    """Keeps lists, maps and structs inside of values, of list entries and of map entries."""

    NESTED = "ids array<int>, tags array<array<string>>, facts array<struct<name: string, value: string>>"

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("value", self.NESTED)
        self.list = handle.getListState("list", self.NESTED)
        self.map = handle.getMapState(
            "map", "name string", "id int, lists map<string, array<int>>, maps map<string, map<string, int>>"
        )

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        n = int(sum(frame["amount"].sum() for frame in rows))
        ids, tags, facts = self.value.get() or ([0], [["a", None], []], [("env", "prod"), ("at", None)])
        self.value.update(([*ids[-3:], n], tags, facts))
        self.list.appendValue(self.value.get())
        number, lists, maps = self.map.getValue(("all",)) or (0, {"first": [1]}, {"e1": {"e2": 5}})
        lists[f"n{number}"] = [n, None]
        maps.setdefault("e1", {})[f"n{number}"] = n
        self.map.updateValue(("all",), (number + 1, lists, maps))
        held = self.map.getValue(("all",))
        shown = held.id, sorted(held.lists.items()), sorted(held.maps["e1"].items())
        yield told(key, self.value.get(), list(self.list.get())[-2:], shown)


class NestedOut(StatefulProcessor):
    """Yields rows with lists, maps and structs in them."""

    OUTPUT = (
        "user string, name string, items array<string>, marks map<string, string>, "
        "inner array<struct<number: int, x: double, names: array<string>>>, times map<string, struct<at: timestamp>>"
    )

    def init(self, handle: Any) -> None:
        self.n = handle.getValueState("n", StructType([StructField("n", IntegerType())]))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        last = list(rows)[-1]
        n = (self.n.get() or (0,))[0] + 1
        self.n.update((n,))
        yield Row(
            user=key[0],
            name=f"{n} of {key[0]}",
            items=[f"item {number}" for number in range(n)],
            marks={f"k{number}": None if number else "v" for number in range(n)},
            inner=[Row(number=number, x=number * 1.5, names=["a"] * number) for number in range(n)],
            times={"last": Row(at=last.at)},
        )


class NestedFrames(StatefulProcessor):
    """Yields frames with lists and structs in them."""

    OUTPUT = "user string, items array<long>, inner struct<number: long, name: string>"

    def init(self, handle: Any) -> None:
        self.n = handle.getValueState("n", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        n = (self.n.get() or (0,))[0] + sum(len(frame) for frame in rows)
        self.n.update((n,))
        yield pd.DataFrame({"user": [key[0]], "items": [list(range(n % 5))], "inner": [{"number": n, "name": "n"}]})


class TwoKeys(StatefulProcessor):
    """Is grouped by two columns, of which one may be null."""

    def init(self, handle: Any) -> None:
        self.n = handle.getValueState("n", "n long")
        self.seen = handle.getMapState("seen", "user string, what string", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        n = (self.n.get() or (0,))[0] + sum(len(frame) for frame in rows)
        self.n.update((n,))
        self.seen.updateValue(key, (n,))
        yield pd.DataFrame({"user": [key[0]], "what": [key[1]], "told": [repr((n, list(self.seen.iterator())))]})


class NullKeys(StatefulProcessor):
    """Takes rows whose key is null, and has timers for them."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.n = handle.getValueState("n", "n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        n = (self.n.get() or (0,))[0] + len(list(rows))
        self.n.update((n,))
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 30_000)
        yield Row(user=key[0], told=f"{key!r} {n}")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield Row(user=key[0], told=f"timer {key!r} {expiredTimerInfo.getExpiryTimeInMs()} {self.n.get()}")


class Frames(StatefulProcessor):
    """Yields several frames, empty ones, none at all, or columns in another order."""

    def init(self, handle: Any) -> None:
        self.calls = handle.getValueState("calls", "n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        calls = (self.calls.get() or (0,))[0]
        self.calls.update((calls + 1,))
        if key[0] == "user 1":
            return
        yield pd.DataFrame()
        for frame in rows:
            yield frame.assign(told=frame["what"] + str(calls))[["told", "user"]]
            yield frame[["user"]].assign(told="again").head(calls)


class Large(StatefulProcessor):
    """Keeps text of 100 kB in a value, in list entries and in map entries (Spark's own tests)."""

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("value", StructType([StructField("text", StringType())]))
        self.list = handle.getListState("list", "text string")
        self.map = handle.getMapState("map", "n int", "text string")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        n = sum(len(frame) for frame in rows)
        text = f"{n} " * 50_000
        before = [len((self.value.get() or ("",))[0]), [len(each) for (each,) in self.list.get()]]
        self.value.update((text,))
        self.list.appendList([(text,), (text[:7],)])
        self.map.updateValue((n,), (text,))
        yield told(key, before, sorted((number, len(each)) for (number,), (each,) in self.map.iterator()))


class Migrated(StatefulProcessor):
    """Begins with the totals of another query (Databricks), and with frames of several rows for a key."""

    def init(self, handle: Any) -> None:
        self.total = handle.getValueState("total", "n long")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.total.update((int(initialState.at[0, "amount"]),))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        total = (self.total.get() or (0,))[0] + int(sum(frame["amount"].sum() for frame in rows))
        self.total.update((total,))
        yield told(key, total)


class MigratedLists(StatefulProcessor):
    """Begins with lists, row by row, and with maps that expire."""

    def init(self, handle: Any) -> None:
        self.list = handle.getListState("list", "n long")
        self.map = handle.getMapState("map", "n long", "n long", HOUR_MS)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.list.appendValue((initialState.amount,))
        self.map.updateValue((initialState.amount,), (1,))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self.map.updateValue((row.amount % 5,), (row.amount,))
        self.list.appendValue((len(list(self.map.keys())),))
        yield Row(user=key[0], told=repr((sorted(self.list.get()), sorted(self.map.iterator()))))


class MigratedTimers(StatefulProcessor):
    """Begins with timers: those of keys without any row come, too (Spark's own tests)."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.total = handle.getValueState("total", "n long")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.total.update((int(initialState["amount"].sum()),))
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() - 1)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        yield told(key, self.total.get(), len(list(self.handle.listTimers())))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        self.handle.deleteTimer(expiredTimerInfo.getExpiryTimeInMs())
        yield told(key, "timer", self.total.get())


BEFORE = [("user 1", 789), ("user 3", 987), ("nobody", 5)]

CASES = {
    "nested state": Case(Nested),
    "nested output": Case(NestedOut, NestedOut.OUTPUT, by_row=True, batches=partial(events, 61)),
    "nested frames": Case(NestedFrames, NestedFrames.OUTPUT, batches=partial(events, 62)),
    "two keys": Case(
        TwoKeys,
        "user string, what string, told string",
        key=("user", "what"),
        batches=partial(events, 63, 4, 30, 4, True),
    ),
    "null keys": Case(
        NullKeys,
        time_mode="EventTime",
        output_mode="append",
        by_row=True,
        watermark="20 seconds",
        batches=partial(events, 64, 4, 30, 6, True),
    ),
    "several frames": Case(Frames, batches=partial(events, 65)),
    "large values": Case(Large, batches=partial(events, 66, 4, 9, 3)),
    "migrated": Case(Migrated, TOLD, initial=BEFORE, batches=partial(events, 67)),
    "migrated lists, by row": Case(
        MigratedLists,
        time_mode="ProcessingTime",
        by_row=True,
        initial=[*BEFORE, ("user 1", 7)],
        batches=partial(events, 68),
    ),
    "migrated timers": Case(MigratedTimers, time_mode="ProcessingTime", initial=BEFORE, batches=partial(events, 69)),
}
