"""Processors with value state, after Spark's guide to transformWithState, Databricks' examples and users' articles."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

import pandas as pd
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from native_jobs.case import Case, events, told


class Violations(StatefulProcessor):
    """Counts amounts above a limit, over all batches, beside the rows of this one (Spark's own tests)."""

    def init(self, handle: Any) -> None:
        self.violations = handle.getValueState("violations", "n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        count, new = 0, 0
        for frame in rows:
            count += int(frame["amount"].count())
            new += int((frame["amount"] > 25).sum())
        before = self.violations.get()[0] if self.violations.exists() else 0
        self.violations.update((before + new,))
        yield told(key, count, new, self.violations.get())


class Latest(StatefulProcessor):
    """Keeps the row with the latest time, a slowly changing dimension of type 1 (Databricks)."""

    def init(self, handle: Any) -> None:
        self.latest = handle.getValueState("latest", "ms long, what string")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        best = self.latest.get()
        for frame in rows:
            for ms, what in zip(frame["ms"], frame["what"], strict=True):
                if best is None or ms > best[0]:
                    best = (ms, what)
        if best != self.latest.get():
            self.latest.update(best)
            yield told(key, *self.latest.get())
        yield pd.DataFrame()


class LatestByRow(StatefulProcessor):
    """The same with rows and a timestamp."""

    def init(self, handle: Any) -> None:
        self.latest = handle.getValueState("latest", "at timestamp, what string")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        newest = max(rows, key=lambda row: row.ms)
        held = self.latest.get()
        if held is None or newest.at.replace(tzinfo=None) > held[0]:
            self.latest.update((newest.at.replace(tzinfo=None), newest.what))
            yield Row(user=key[0], told=repr(self.latest.get()))


class Versions(StatefulProcessor):
    """Closes a version of a key when another value comes, a slowly changing dimension of type 2 (Databricks)."""

    def init(self, handle: Any) -> None:
        self.current = handle.getValueState("current", "what string, since long, number int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        what, since, number = self.current.get() or (None, None, 0)
        for row in sorted(rows, key=lambda row: row.ms):
            if what != row.what:
                if what is not None:
                    yield Row(user=key[0], told=f"{number}: {what} from {since} to {row.ms}")
                what, since, number = row.what, row.ms, number + 1
        self.current.update((what, since, number))


class Merged(StatefulProcessor):
    """Merges partial updates, in which fields that did not change are null, as of a flight (an article)."""

    def init(self, handle: Any) -> None:
        self.merged = handle.getValueState("merged", "gate string, bags int, delay double, changes long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        gate, bags, delay, changes = self.merged.get() or (None, None, None, 0)
        for row in rows:
            update = {"view": {"gate": f"G{row.amount % 9}"}, "buy": {"bags": row.amount}, "return": {"delay": 0.5}}
            new = update[row.what]
            gate, bags, delay = new.get("gate", gate), new.get("bags", bags), new.get("delay", delay)
            changes += 1
        self.merged.update((gate, bags, delay, changes))
        yield Row(user=key[0], told=repr(self.merged.get()))


class Stages(StatefulProcessor):
    """Lets a key go from stage to stage in one order, and counts steps out of it, as of a flight (a tutorial)."""

    NEXT = {"view": "buy", "buy": "return", "return": "view"}  # noqa: RUF012

    def init(self, handle: Any) -> None:
        self.stage = handle.getValueState("stage", "name string, rounds int, wrong int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        name, rounds, wrong = self.stage.get() or ("return", 0, 0)
        passed = []
        for frame in rows:
            for what in frame["what"]:
                if self.NEXT[name] == what:
                    name, rounds = what, rounds + (what == "view")
                    passed.append(what)
                else:
                    wrong += 1
        self.stage.update((name, rounds, wrong))
        yield told(key, passed, self.stage.get())


class Spread(StatefulProcessor):
    """Keeps count, mean, variance and extremes, one row after the other."""

    def init(self, handle: Any) -> None:
        self.kept = handle.getValueState("kept", "n long, mean double, m2 double, least long, most long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        n, mean, m2, least, most = self.kept.get() or (0, 0.0, 0.0, 1000, -1000)
        for row in rows:
            n += 1
            delta = row.amount - mean
            mean += delta / n
            m2 += delta * (row.amount - mean)
            least, most = min(least, row.amount), max(most, row.amount)
        self.kept.update((n, mean, m2, least, most))
        yield Row(user=key[0], told=repr(self.kept.get()))


class InARow(StatefulProcessor):
    """Raises an alarm after three high readings in a row, and begins anew (environmental monitoring, Databricks)."""

    def init(self, handle: Any) -> None:
        self.high = handle.getValueState("high", "n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            for amount, ms in zip(frame["amount"], frame["ms"], strict=True):
                if amount < 20:
                    self.high.clear()
                    continue
                self.high.update(((self.high.get() or (0,))[0] + 1,))
                if self.high.get() == (3,):
                    self.high.clear()
                    yield told(key, int(ms), self.high.exists(), self.high.get())


class Nothing(StatefulProcessor):
    """Asks for a value that no key has, clears it, and uses a variable that init has deleted (Spark's own tests)."""

    def init(self, handle: Any) -> None:
        self.never = handle.getValueState("never", "n int")
        self.deleted = handle.getValueState("deleted", "n int")
        handle.deleteIfExists("deleted")
        handle.deleteIfExists("no such")
        self.asked = handle.getMapState("asked", "n int", "n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        there = self.never.exists(), self.never.get(), self.asked.exists(), list(self.asked.iterator())
        self.never.clear()
        self.asked.clear()
        try:
            refused = repr(self.deleted.exists())
        except PySparkRuntimeError as error:
            refused = str(error).split(":")[0]
        yield told(key, there, refused)


class Logins(StatefulProcessor):
    """Tells of a login from another place within the hour of event time (fraud detection, an article)."""

    def init(self, handle: Any) -> None:
        self.last = handle.getValueState("last", "place string, at timestamp")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            for what, ms in sorted(zip(frame["what"], frame["ms"], strict=True), key=lambda pair: pair[1]):
                at = datetime.fromtimestamp(ms / 1000)
                place, before = self.last.get() or (what, at)
                if place != what and 0 <= (at - before).total_seconds() < 40:
                    yield told(key, place, what, int((at - before).total_seconds()))
                self.last.update((what, at))


CASES = {
    "violations": Case(Violations),
    "latest row": Case(Latest, batches=partial(events, 11)),
    "latest row, by row": Case(LatestByRow, by_row=True, batches=partial(events, 12)),
    "versions": Case(Versions, output_mode="append", by_row=True, batches=partial(events, 13)),
    "merged updates": Case(Merged, by_row=True, batches=partial(events, 14)),
    "stages": Case(Stages, batches=partial(events, 15)),
    "spread": Case(Spread, by_row=True, batches=partial(events, 16)),
    "three in a row": Case(InARow, output_mode="append", batches=partial(events, 17, 4, 60)),
    "nothing held": Case(Nothing, batches=partial(events, 18)),
    "logins": Case(Logins, output_mode="append", batches=partial(events, 19, 4, 60)),
}
