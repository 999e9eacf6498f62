"""Processors with timers and expiry by the clock, after Spark's own tests, its guide and Databricks' examples.

What they yield does not depend on the time of day: a millisecond has passed by the next batch, and an hour has not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from native_jobs.case import HOUR_MS, Case, events, told


class ResetCounts(StatefulProcessor):
    """Counts rows until a timer clears the count, in the next batch (Spark's own tests)."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n string")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        n = int(self.count.get()[0]) if self.count.exists() else 0
        n += sum(len(frame) for frame in rows)
        self.count.update((str(n),))
        if key == ("user 0",):
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
        yield told(key, n, len(list(self.handle.listTimers())))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        first, second = list(self.handle.listTimers()), list(self.handle.listTimers())
        self.count.clear()
        self.handle.deleteTimer(expiredTimerInfo.getExpiryTimeInMs())
        yield told(key, "reset", first == second, expiredTimerInfo.getExpiryTimeInMs() in first)


class Attempts(StatefulProcessor):
    """Locks a key that has failed too often; the lock expires at once, the count in an hour."""

    def init(self, handle: Any) -> None:
        self.failures = handle.getValueState("failures", "n int", HOUR_MS)
        self.lock = handle.getValueState("lock", "since int", ttlDurationMs=1)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            if self.lock.exists():
                yield Row(user=key[0], told=f"locked since {self.lock.get()}")
            elif row.what == "return":
                n = (self.failures.get() or (0,))[0] + 1
                self.failures.update((n,))
                if n % 3 == 0:
                    self.lock.update((n,))
        yield Row(user=key[0], told=repr((self.failures.get(), self.lock.get())))


class Recently(StatefulProcessor):
    """Keeps lists of which one expires at once; it is put anew, or appended to, or left alone."""

    def init(self, handle: Any) -> None:
        self.short = handle.getListState("short", "n long", 1)
        self.long = handle.getListState("long", "n long", HOUR_MS)
        self.ever = handle.getListState("ever", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        n = sum(len(frame) for frame in rows)
        before = self.short.exists(), list(self.short.get()), list(self.long.get()), list(self.ever.get())
        if n % 3 == 0:
            self.short.put([(n,), (n + 1,)])
        elif n % 3 == 1:
            self.short.appendValue((n,))
            self.short.appendList([(n,), (n + 2,)])
        for each in (self.long, self.ever):
            each.appendValue((n,))
        yield told(key, before, list(self.short.get()))


class SeenLately(StatefulProcessor):
    """Keeps maps of which one expires at once; entries are put again, removed and cleared."""

    def init(self, handle: Any) -> None:
        self.short = handle.getMapState("short", "what string", "n long", 1)
        self.long = handle.getMapState("long", "what string", "n long", HOUR_MS)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        before = self.short.exists(), sorted(self.short.iterator()), sorted(self.long.iterator())
        for row in rows:
            for each in (self.short, self.long):
                each.updateValue((row.what,), ((each.getValue((row.what,)) or (0,))[0] + 1,))
        if len(list(self.long.keys())) == 3:
            self.long.removeKey(("view",))
        if before[0]:
            self.short.clear()
        yield Row(user=key[0], told=repr((before, sorted(self.short.iterator()), self.long.containsKey(("view",)))))


class AllThatExpires(StatefulProcessor):
    """Counts four times: in a value, in a list and in a map that expire, and in one that does not (Spark's tests)."""

    def init(self, handle: Any) -> None:
        self.kept = handle.getValueState("kept", "n int")
        self.value = handle.getValueState("value", "n int", 1)
        self.list = handle.getListState("list", "n int", 1)
        self.map = handle.getMapState("map", "user string", "n int", 1)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        n = sum(len(frame) for frame in rows)
        kept = (self.kept.get() or (0,))[0] + n
        value = (self.value.get() or (0,))[0] + n
        listed = sum(number for (number,) in self.list.get()) + n
        mapped = (self.map.getValue(key) or (0,))[0] + n
        self.kept.update((kept,))
        if kept % 2:
            self.value.update((value,))
            self.list.put([(listed,), (listed,)])
            self.map.updateValue(key, (mapped,))
        here = self.value.get(), list(self.list.get()), self.map.getValue(key)
        yield told(key, kept, value, listed, mapped, here)


class Idle(StatefulProcessor):
    """Tells three times that nothing came, batch after batch, if nothing does (downtime detector, Spark's guide)."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.idle = handle.getValueState("idle", "n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
        before = self.idle.get()
        self.idle.update((0,))
        yield Row(user=key[0], told=f"{len(list(rows))} rows after {before}")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        n = self.idle.get()[0] + 1
        self.idle.update((n,))
        if n < 3:
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
        late = timerValues.getCurrentProcessingTimeInMs() >= expiredTimerInfo.getExpiryTimeInMs()
        yield Row(user=key[0], told=f"idle {n}, {late}")


class Both(StatefulProcessor):
    """Has timers and state that expires: a timer finds what has expired gone, and what has not there."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.short = handle.getMapState("short", "n int", "n int", 1)
        self.long = handle.getMapState("long", "n int", "n int", HOUR_MS)
        self.list = handle.getListState("list", "n int", HOUR_MS)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        now, n = timerValues.getCurrentProcessingTimeInMs(), sum(len(frame) for frame in rows)
        for time in (now - 1, now + 1, now + HOUR_MS, now + HOUR_MS, n):
            self.handle.registerTimer(time)
        self.short.updateValue((n,), (n,))
        self.long.updateValue((n,), (n,))
        self.list.appendValue((n,))
        yield told(key, sorted(self.short.iterator()), sorted(self.long.iterator()))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        now, time = timerValues.getCurrentProcessingTimeInMs(), expiredTimerInfo.getExpiryTimeInMs()
        due = sum(each <= now for each in self.handle.listTimers())
        here = sorted(self.short.iterator()), sorted(self.long.iterator()), list(self.list.get())
        yield told(key, "timer", time == now - 1, time < HOUR_MS, due, here)
        if time < HOUR_MS:
            self.list.clear()


CASES = {
    "reset counts": Case(ResetCounts, time_mode="ProcessingTime"),
    "attempts": Case(Attempts, time_mode="ProcessingTime", by_row=True, batches=partial(events, 51)),
    "recently": Case(Recently, time_mode="ProcessingTime", batches=partial(events, 52)),
    "seen lately": Case(SeenLately, time_mode="ProcessingTime", by_row=True, batches=partial(events, 53)),
    "all that expires": Case(AllThatExpires, time_mode="ProcessingTime", batches=partial(events, 54)),
    "idle": Case(Idle, time_mode="ProcessingTime", by_row=True, batches=partial(events, 55, 4, 12, 9)),
    "timers and expiry": Case(Both, time_mode="ProcessingTime", batches=partial(events, 56)),
}
