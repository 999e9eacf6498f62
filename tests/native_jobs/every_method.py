"""Processors that use every method of every kind of state, of timers and of initial state, between them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from native_jobs.case import HOUR_MS, TOLD, Case, events


class RunningCount(StatefulProcessor):
    """Counts rows."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        before = self.count.get()[0] if self.count.exists() else 0
        total = before + sum(len(frame) for frame in rows)
        self.count.update((total,))
        yield pd.DataFrame({"user": [key[0]], "n": [total]})


class RunningMean(StatefulProcessor):
    """Keeps a count and a sum; NumPy's numbers go into the state as they come."""

    def init(self, handle: Any) -> None:
        self.sums = handle.getValueState("sums", "n long, total double")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        n, total = self.sums.get() or (0, 0.0)
        for frame in rows:
            n, total = n + frame["amount"].count(), total + frame["amount"].sum() * 1.0
        self.sums.update((n, total))
        n, total = self.sums.get()
        yield pd.DataFrame({"user": [key[0]], "mean": [total / n], "kinds": [f"{type(n)} {type(total)}"]})


class FirstSeen(StatefulProcessor):
    """Passes on what has not been seen for a while: for an hour in one variable, for a millisecond in another."""

    def init(self, handle: Any) -> None:
        self.seen = handle.getMapState("seen", "what string, amount long", "n long", ttlDurationMs=HOUR_MS)
        self.last = handle.getValueState("last", "what string", ttlDurationMs=1)
        self.notes = handle.getListState("notes", "n long", ttlDurationMs=1)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        told = [self.last.exists(), self.last.get(), self.notes.exists(), list(self.notes.get())]
        new = []
        for frame in rows:
            for what, amount in zip(frame["what"], frame["amount"], strict=True):
                if not self.seen.containsKey((what, amount)):
                    new.append((what, amount))
                self.seen.updateValue((what, amount), (1,))
            self.last.update((what,))
            self.notes.appendValue((len(frame),))
            self.notes.appendList([(1,), (2,)])
        told += [self.last.get(), list(self.notes.get()), len(list(self.seen.keys()))]
        yield pd.DataFrame({"user": key[0], "what": [what for what, _ in new] or ["none"], "told": repr(told)})


class Recent(StatefulProcessor):
    """Uses every method of a list: the last three amounts, put anew; all, appended; cleared after twelve."""

    def init(self, handle: Any) -> None:
        self.last = handle.getListState("last", "amount long")
        self.all = handle.getListState("all", "what string, amount long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        there = self.last.exists(), self.all.exists()
        for frame in rows:
            amounts = [(int(amount),) for amount in frame["amount"]]
            self.last.put([*self.last.get(), *amounts][-3:])
            self.all.appendValue((frame["what"][0], frame["amount"][0]))
            if len(frame) > 1:
                self.all.appendList([*zip(frame["what"][1:], frame["amount"][1:], strict=True)])
        told = repr((there, list(self.last.get()), list(self.all.get())))
        if len(list(self.all.get())) > 12:
            self.all.clear()
            told += repr((self.all.exists(), list(self.all.get())))
        yield pd.DataFrame({"user": [key[0]], "told": [told]})


class Stock(StatefulProcessor):
    """Uses every method of a map: adds up by kind, removes what is at zero or above 150, clears at three kinds."""

    def init(self, handle: Any) -> None:
        self.stock = handle.getMapState("stock", "what string", "amount long, n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        told = [repr(self.stock.exists()), repr(self.stock.getValue(("no such",)))]
        for frame in rows:
            for what, amount in zip(frame["what"], frame["amount"], strict=True):
                held = self.stock.getValue((what,))
                before = (held.amount, held.n) if held is not None else (0, 0)
                self.stock.updateValue((what,), (before[0] + int(amount), before[1] + 1))
        for (what,), (amount, _) in self.stock.iterator():
            if amount == 0 or amount > 150:
                self.stock.removeKey((what,))
        self.stock.removeKey(("no such",))
        told += [
            repr(sorted(self.stock.keys())),
            repr(sorted(self.stock.values())),
            repr(self.stock.containsKey(("buy",))),
        ]
        if len(list(self.stock.keys())) == 3:
            self.stock.clear()
            told.append(repr(list(self.stock.iterator())))
        yield pd.DataFrame({"user": [key[0]], "told": [" ".join(told)]})


class Sessions(StatefulProcessor):
    """Ends a session 30 seconds of event time after its last row; the timer moves with every row."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.session = handle.getValueState("session", "start timestamp, last timestamp, n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        times = pd.concat([frame["at"] for frame in rows])
        start, last, n = self.session.get() or (times.min(), times.min(), 0)
        start, last = min(times.min(), start), max(times.max(), last)
        self.session.update((start, last, n + len(times)))
        for timer in self.handle.listTimers():
            self.handle.deleteTimer(timer)
        ends = int(last.timestamp() * 1000) + 30_000
        self.handle.registerTimer(ends)
        self.handle.registerTimer(ends)
        yield pd.DataFrame(
            {"user": [key[0]], "told": [f"open, {n + len(times)}"], "ms": [timerValues.getCurrentWatermarkInMs()]}
        )

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        start, last, n = self.session.get()
        told = f"{key!r} had {n} rows from {start} to {last}, timers {list(self.handle.listTimers())}"
        self.session.clear()
        yield pd.DataFrame({"user": [key[0]], "told": [told], "ms": [expiredTimerInfo.getExpiryTimeInMs()]})


class Alarms(StatefulProcessor):
    """Timers in processing time: one long past, which fires at once and sets others, one for later, one deleted."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.fired = handle.getListState("fired", "ms long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        n = sum(len(frame) for frame in rows)
        now = timerValues.getCurrentProcessingTimeInMs()
        for time in (1_000, 2_000 + n, 1_000, 7, now + HOUR_MS):
            self.handle.registerTimer(time)
        self.handle.deleteTimer(7)
        self.handle.deleteTimer(8)
        told = repr((n, [time for time in sorted(self.handle.listTimers()) if time < now], len(list(self.fired.get()))))
        yield pd.DataFrame({"user": [key[0]], "told": [told]})

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        now, time = timerValues.getCurrentProcessingTimeInMs(), expiredTimerInfo.getExpiryTimeInMs()
        self.fired.appendValue((time,))
        listed = [each for each in sorted(self.handle.listTimers()) if each < now]
        if time == 1_000:
            self.handle.registerTimer(3_000)  # for the next batch
            self.handle.registerTimer(1_000)  # which goes with the one that has fired
        if time == 3_000:
            self.fired.clear()
        yield pd.DataFrame({"user": [key[0]], "told": [f"{time} among {listed}, {list(self.fired.get())}"]})


class Balances(StatefulProcessor):
    """Begins with an initial state, in three variables."""

    def init(self, handle: Any) -> None:
        self.balance = handle.getValueState("balance", "amount long")
        self.source = handle.getMapState("source", "name string", "n long")
        self.log = handle.getListState("log", "amount long")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        before = self.balance.get()[0] if self.balance.exists() else 0
        self.balance.update((before + int(initialState["amount"].sum()),))
        self.source.updateValue(("initial",), (len(initialState),))
        self.log.appendList([(int(amount),) for amount in sorted(initialState["amount"])])

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        total = self.balance.get()[0] if self.balance.exists() else 0
        for frame in rows:
            total += int(frame["amount"].sum())
        self.balance.update((total,))
        self.source.updateValue(("rows",), ((self.source.getValue(("rows",)) or (0,))[0] + 1,))
        told = repr((total, sorted(self.source.iterator()), list(self.log.get())))
        yield pd.DataFrame({"user": [key[0]], "told": [told]})


class RowCounts(StatefulProcessor):
    """Takes and yields rows: several variables, a row or two for each key, nothing for some."""

    def init(self, handle: Any) -> None:
        self.kinds = handle.getMapState("kinds", "what string", "n long")
        self.latest = handle.getValueState("latest", "at timestamp, amount long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        latest = None
        for row in rows:
            (before,) = self.kinds.getValue((row.what,)) or (0,)
            self.kinds.updateValue((row.what,), (before + 1,))
            latest = row if latest is None or row.at > latest.at else latest
        self.latest.update((latest.at.replace(tzinfo=None), latest.amount))
        if key[0] == "user 3":
            return
        for (what,), (n,) in sorted(self.kinds.iterator()):
            yield Row(what=what, user=key[0], n=n, told=repr((type(key).__name__, latest, self.latest.get())))


class RowAlarms(StatefulProcessor):
    """Takes and yields rows, with timers in event time that set another one."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.n = handle.getValueState("n", "n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        n = (self.n.get() or (0,))[0] + len(list(rows))
        self.n.update((n,))
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 20_000 + n)
        yield Row(user=key[0], told=f"{n} at {timerValues.getCurrentWatermarkInMs()}")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        (n,) = self.n.get()
        if n % 2:
            self.handle.registerTimer(expiredTimerInfo.getExpiryTimeInMs() + 1)
        else:
            self.n.clear()
            self.n.update((n + 1,))
        yield Row(user=key[0], told=f"{key!r}, timer {expiredTimerInfo.getExpiryTimeInMs()}, {n}")


class RowBalances(StatefulProcessor):
    """Begins with an initial state, row by row; some keys have no rows in any batch but a timer."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.amounts = handle.getListState("amounts", "amount long")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.amounts.appendValue((initialState.amount,))
        self.handle.registerTimer(5)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self.amounts.appendValue((row.amount,))
        yield Row(user=key[0], told=f"{sorted(self.amounts.get())}")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield Row(user=key[0], told=f"timer {sorted(self.amounts.get())}")


class Odd(StatefulProcessor):
    """Tells all that a processor sees, of columns and state of many types; yields frames in odd forms."""

    def init(self, handle: Any) -> None:
        self.kept = handle.getValueState(
            "kept", "n int, x double, s string, t timestamp, inner struct<a: int>, l array<int>"
        )
        self.map = handle.getMapState("map", "d date, n long", "x float")
        self.nothing = handle.getListState("nothing", "b boolean")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        told = [
            repr(key),
            repr([type(each).__name__ for each in key]),
            repr(self.kept.get()),
            repr(list(self.map.iterator())),
        ]
        for frame in rows:
            told += [repr(frame.dtypes.to_dict()), repr(frame.to_dict("list")), repr(frame.index)]
        told.append(repr((timerValues.getCurrentProcessingTimeInMs(), timerValues.getCurrentWatermarkInMs())))
        stamp = frame["at"].iloc[0]
        self.kept.update((np.int64(7), 5, 1.5, stamp, (3,), [1, 2]))
        self.map.updateValue((stamp.date(), np.int64(4)), (0.1,))
        told += [repr(self.kept.get()), repr(self.map.getValue((stamp.date(), 4))), repr(self.nothing.exists())]
        yield pd.DataFrame({"told": ["\n".join(told)], "spare": [1], "user": [str(key[0])]})
        yield pd.DataFrame()


def odd_rows() -> list[pa.Table]:
    """Return rows of many types with nulls, one user in each batch so that Spark's own conversion has one outcome."""
    batches = []
    for user, there in (("ada", True), (None, False), ("ada", False), ("bob", True)):
        columns = {
            "user": pa.array([user, user], pa.string()),
            "small": pa.array([1, 2 if there else None], pa.int16()),
            "x": pa.array([1.5, None], pa.float32()),
            "flag": pa.array([True, False if there else None]),
            "at": pa.array([10**15, 10**15 + 1], pa.timestamp("us", "UTC")),
            "day": pa.array([5, None], pa.int32()).cast(pa.date32()),
            "spot": [{"x": 1}, None],
            "tags": [[1, 2], None],
            "odd name": [1, 2],
        }
        batches.append(pa.table(columns))
    return batches


class MeanByHour(StatefulProcessor):
    """Passes rows on with an event time, for a stage that follows."""

    def init(self, handle: Any) -> None:
        self.n = handle.getValueState("n", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            self.n.update(((self.n.get() or (0,))[0] + len(frame),))
            yield frame[["user", "at", "amount"]]


CASES: dict[str, Case] = {
    "running count": Case(RunningCount, "user string, n long"),
    "running mean": Case(RunningMean, "user string, mean double, kinds string", batches=partial(events, 2)),
    "first seen, with expiry": Case(FirstSeen, "user string, what string, told string", "ProcessingTime"),
    "recent, a list": Case(Recent, TOLD, output_mode="append", batches=partial(events, 3)),
    "stock, a map": Case(Stock, TOLD, batches=partial(events, 4)),
    "sessions, timers in event time": Case(
        Sessions,
        "user string, told string, ms long",
        "EventTime",
        "append",
        watermark="20 seconds",
        batches=partial(events, 5),
    ),
    "alarms, timers in processing time": Case(Alarms, TOLD, "ProcessingTime"),
    "balances, an initial state": Case(
        Balances,
        TOLD,
        initial=[("user 1", 100), ("user 2", 50), ("user 1", 7), ("nobody", 3)],
        batches=partial(events, 6),
    ),
    "counts, by row": Case(
        RowCounts, "user string, what string, n long, told string", by_row=True, batches=partial(events, 7)
    ),
    "alarms, by row": Case(
        RowAlarms, TOLD, "EventTime", "append", True, watermark="30 seconds", batches=partial(events, 8)
    ),
    "balances, by row": Case(
        RowBalances, TOLD, "ProcessingTime", by_row=True, initial=[("user 1", 100), ("nobody", 3), ("nobody", 4)]
    ),
    "odd types": Case(Odd, TOLD, batches=odd_rows),
    "means, with event time": Case(
        MeanByHour, "user string, at timestamp, amount long", "EventTime", "append", watermark="1 hour", event_time="at"
    ),
}
