"""Processors with timers in event time, after Spark's own tests, its guide and Databricks' examples."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from native_jobs.case import Case, events, told


class Greatest(StatefulProcessor):
    """Yields the latest time; a timer at the watermark itself clears it in the same batch (Spark's own tests)."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.most = handle.getValueState("most", "ms string")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        most = max(int(frame["ms"].max()) for frame in rows)
        if self.most.exists():
            most = max(most, int(self.most.get()[0]))
        self.most.update((str(most),))
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs())
        yield told(key, most)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        self.most.clear()
        self.handle.deleteTimer(expiredTimerInfo.getExpiryTimeInMs())
        yield told(key, "expired", expiredTimerInfo.getExpiryTimeInMs(), list(self.handle.listTimers()))


class Downtime(StatefulProcessor):
    """Tells every 15 seconds for how long a key has been silent, three times (downtime detector, Databricks)."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.seen = handle.getValueState("seen", "ms long, told int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        latest = max(row.ms for row in rows)
        if self.seen.exists():
            latest = max(latest, self.seen.get()[0])
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.seen.update((latest, 0))
        self.handle.registerTimer(latest + 15_000)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        ms, before = self.seen.get()
        silent = timerValues.getCurrentWatermarkInMs() - ms
        if before < 2:
            self.seen.update((ms, before + 1))
            self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 15_000)
        else:
            self.seen.clear()
        yield Row(user=key[0], told=f"silent for {silent} ms, {before + 1}")


class Abandoned(StatefulProcessor):
    """Reminds of what was viewed and not bought within 20 seconds; a purchase deletes the timer."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.viewed = handle.getMapState("viewed", "due long", "amount long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            for what, amount, ms in zip(frame["what"], frame["amount"], frame["ms"].tolist(), strict=True):
                if what == "view":
                    self.viewed.updateValue((ms + 20_000,), (amount,))
                    self.handle.registerTimer(ms + 20_000)
                elif what == "buy" and self.viewed.exists():
                    due = min(due for (due,) in self.viewed.keys())  # noqa: SIM118
                    self.viewed.removeKey((due,))
                    self.handle.deleteTimer(due)
        yield told(key, sorted(self.handle.listTimers()) == sorted(due for (due,) in self.viewed.keys()))  # noqa: SIM118

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        due = (expiredTimerInfo.getExpiryTimeInMs(),)
        yield told(key, "reminded", due, self.viewed.getValue(due))
        self.viewed.removeKey(due)


class Windows(StatefulProcessor):
    """Counts in windows of 20 seconds by hand: an entry and a timer for each."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.windows = handle.getMapState("windows", "start long", "n long, total long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            start = row.ms // 20_000 * 20_000
            n, total = self.windows.getValue((start,)) or (0, 0)
            self.windows.updateValue((start,), (n + 1, total + row.amount))
            self.handle.registerTimer(start + 20_000)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        start = expiredTimerInfo.getExpiryTimeInMs() - 20_000
        n, total = self.windows.getValue((start,))
        self.windows.removeKey((start,))
        yield Row(user=key[0], told=f"{start}: {n}, {total}, {len(list(self.windows.keys()))} are open")


class Reminders(StatefulProcessor):
    """Sets three timers with the first row of a round; the second one deletes the third now and then."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.base = handle.getValueState("base", "ms long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        first = min(int(frame["ms"].min()) for frame in rows)
        if not self.base.exists():
            self.base.update((first,))
            for seconds in (30, 10, 20):
                self.handle.registerTimer(first + 1000 * seconds)
        yield told(key, sorted(timer - self.base.get()[0] for timer in self.handle.listTimers()))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        (base,) = self.base.get() or (0,)
        after = expiredTimerInfo.getExpiryTimeInMs() - base
        left = sorted(timer - base for timer in self.handle.listTimers())
        if after == 20_000 and base % 2_000 == 0:
            self.handle.deleteTimer(base + 30_000)
            self.base.clear()
        if after == 30_000:
            self.base.clear()
        yield told(key, after, left)


class OnTime(StatefulProcessor):
    """Counts the rows that are not late, and tells the watermark."""

    def init(self, handle: Any) -> None:
        self.n = handle.getValueState("n", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        times = [row.ms for row in rows]
        self.n.update(((self.n.get() or (0,))[0] + len(times),))
        watermark = timerValues.getCurrentWatermarkInMs()
        yield Row(user=key[0], told=f"{self.n.get()} by {watermark}, {min(times) - watermark}")


class Chain(StatefulProcessor):
    """Has one timer after the other: each that comes sets the next, and one of the past (Spark's guide)."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.links = handle.getListState("links", "ms long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        times = [row.ms for row in rows]
        if not list(self.handle.listTimers()):
            self.handle.registerTimer(max(times) + 5_000)
        yield Row(user=key[0], told=repr((len(times), list(self.links.get()))))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        now, links = expiredTimerInfo.getExpiryTimeInMs(), len(list(self.links.get()))
        self.links.appendValue((now,))
        if links < 4:
            self.handle.registerTimer(now + 7_000)
            self.handle.registerTimer(now - 1)
        elif links > 6:
            self.links.clear()
        told = repr((key, now, sorted(self.handle.listTimers()), links))
        yield Row(user=key[0], told=told)


class Visits(StatefulProcessor):
    """Splits what a key does into visits, with all that belongs to one in a list (session tracking, Databricks)."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.ends = handle.getValueState("ends", "ms long")
        self.pages = handle.getListState("pages", "what string, ms long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            self.pages.appendList(list(zip(frame["what"], frame["ms"], strict=True)))
            ends = int(frame["ms"].max()) + 25_000
            if self.ends.exists():
                self.handle.deleteTimer(self.ends.get()[0])
                ends = max(ends, self.ends.get()[0])
            self.ends.update((ends,))
            self.handle.registerTimer(ends)
        return iter([])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        yield told(key, len(list(self.pages.get())), sorted(self.pages.get()), self.ends.get())
        self.pages.clear()
        self.ends.clear()


class Earliest(StatefulProcessor):
    """Yields the least time of a key in a column with event time, for a stage behind (Spark's own tests)."""

    def init(self, handle: Any) -> None:
        self.least = handle.getValueState("least", "ms long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        some = sorted(rows, key=lambda row: row.ms)
        if not self.least.exists() or some[0].ms < self.least.get()[0]:
            self.least.update((some[0].ms,))
        yield Row(user=key[0], at=some[0].at, least=self.least.get()[0])


SECONDS = {"time_mode": "EventTime", "output_mode": "append", "watermark": "20 seconds"}

CASES = {
    "greatest time": Case(Greatest, **SECONDS | {"output_mode": "update"}),
    "downtime": Case(Downtime, by_row=True, batches=partial(events, 41, 6, 20, 9), **SECONDS),
    "abandoned": Case(Abandoned, batches=partial(events, 42), **SECONDS),
    "windows by hand": Case(Windows, by_row=True, batches=partial(events, 43), **SECONDS),
    "reminders": Case(Reminders, batches=partial(events, 44, 5), **SECONDS),
    "on time": Case(OnTime, by_row=True, batches=partial(events, 45), **SECONDS | {"watermark": "1 second"}),
    "chain of timers": Case(Chain, by_row=True, batches=partial(events, 46, 5), **SECONDS),
    "visits": Case(Visits, batches=partial(events, 47), **SECONDS),
    "earliest, with event time": Case(
        Earliest,
        "user string, at timestamp, least long",
        by_row=True,
        event_time="at",
        batches=partial(events, 48),
        **SECONDS | {"watermark": "2 hours"},
    ),
}
