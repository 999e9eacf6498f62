"""Three stateful processors as they are written for Spark: sessions, fraud rules, an inventory."""

# ruff: noqa: N802, N803 (Spark's names)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

GAP_MS = 30 * 60 * 1000


class Sessions(StatefulProcessor):
    """Yields a session when its user has been silent for half an hour of event time."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.session = handle.getValueState("session", "start timestamp, last timestamp, clicks int")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        times = pd.concat([frame["at"] for frame in rows])
        start, last, clicks = self.session.get() or (times.min(), times.max(), 0)
        start, last = min(start, times.min()), max(last, times.max())
        self.session.update((start, last, clicks + len(times)))
        for timer in self.handle.listTimers():
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(int(last.timestamp() * 1000) + GAP_MS)
        return iter([])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        start, last, clicks = self.session.get()
        self.session.clear()
        yield pd.DataFrame({"user": [key[0]], "start": [start], "last": [last], "clicks": [clicks]})


class FraudRules(StatefulProcessor):
    """Reports a large payment after three small ones, from the last five payments of a card."""

    SMALL, LARGE, KEPT = 2.0, 500.0, 5

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.recent = handle.getListState("recent", "amount double", ttlDurationMs=3_600_000)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        recent = [amount for (amount,) in self.recent.get()]
        for row in rows:
            small = sum(amount <= self.SMALL for amount in recent)
            if row.amount >= self.LARGE and small >= 3:
                yield Row(card=key[0], payment=row.payment, amount=row.amount, small=small)
            recent = [*recent, row.amount][-self.KEPT :]
        self.recent.put([(amount,) for amount in recent])


class Inventory(StatefulProcessor):
    """Keeps a shop's stock by article, and reports what runs low."""

    LOW = 5

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.stock = handle.getMapState("stock", "article string", "pieces long")

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: Any) -> None:
        for article, pieces in zip(initialState["article"], initialState["pieces"], strict=True):
            self.stock.updateValue((article,), (pieces,))

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        changes = pd.concat(rows).groupby("article")["change"].sum()
        for article, change in changes.items():
            held = self.stock.getValue((article,))
            pieces = (held.pieces if held is not None else 0) + change
            if pieces <= 0:
                self.stock.removeKey((article,))
            else:
                self.stock.updateValue((article,), (pieces,))
            if pieces <= self.LOW:
                yield pd.DataFrame({"shop": [key[0]], "article": [article], "pieces": [max(pieces, 0)]})
