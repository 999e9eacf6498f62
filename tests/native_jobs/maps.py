"""Processors with map state, after Spark's own tests, Databricks' examples and users' articles."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from native_jobs.case import Case, events, told


class Inventory(StatefulProcessor):
    """Counts pieces of articles, and tells of those that run out."""

    SIGN = {"view": 0, "buy": -1, "return": 2}  # noqa: RUF012

    def init(self, handle: Any) -> None:
        self.stock = handle.getMapState("stock", "article int", "pieces long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            article = (row.amount % 4,)
            (pieces,) = self.stock.getValue(article) or (0,)
            pieces += self.SIGN[row.what]
            if pieces < 0:
                self.stock.removeKey(article)
                yield Row(user=key[0], told=f"{article} is out, {self.stock.containsKey(article)}")
            else:
                self.stock.updateValue(article, (pieces,))
        yield Row(user=key[0], told=repr(sorted(self.stock.iterator())))


class Words(StatefulProcessor):
    """Yields how often each word has come, with every row (Spark's tests of its tester)."""

    def init(self, handle: Any) -> None:
        self.counts = handle.getMapState("counts", "word string", "n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            (n,) = self.counts.getValue((row.what,)) or (0,)
            self.counts.updateValue((row.what,), (n + 1,))
            yield Row(user=key[0], told=f"{row.what} {n + 1}")


class Once(StatefulProcessor):
    """Passes each message on once, by its content."""

    def init(self, handle: Any) -> None:
        self.seen = handle.getMapState("seen", "what string, amount long", "ms long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            new = []
            for what, amount, ms in zip(frame["what"], frame["amount"] // 10, frame["ms"], strict=True):
                if not self.seen.containsKey((what, amount)):
                    self.seen.updateValue((what, amount), (ms,))
                    new.append(repr((what, amount, ms)))
            yield pd.DataFrame({"user": [key[0]] * len(new), "told": new}, dtype=object)


class CountMin(StatefulProcessor):
    """Estimates counts with a count-min sketch in a map of cells."""

    def init(self, handle: Any) -> None:
        self.cells = handle.getMapState("cells", "line int, place int", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        asked = set()
        for frame in rows:
            for what in frame["what"]:
                asked.add(what)
                for cell in self._cells(what):
                    self.cells.updateValue(cell, ((self.cells.getValue(cell) or (0,))[0] + 1,))
        counts = {what: min(self.cells.getValue(cell).n for cell in self._cells(what)) for what in sorted(asked)}
        yield told(key, counts, len(list(self.cells.keys())))

    @staticmethod
    def _cells(what: str) -> list[tuple[int, int]]:
        return [(line, zlib.crc32(f"{line} {what}".encode()) % 5) for line in range(3)]


class ManyEntries(StatefulProcessor):
    """Keeps 120 entries and more, reads them in all ways, and removes every third one while it does."""

    def init(self, handle: Any) -> None:
        self.many = handle.getMapState("many", "n int", "twice long, name string")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        n = sum(len(frame) for frame in rows)
        first = len(list(self.many.keys()))
        for number in range(first, first + 120 + n):
            self.many.updateValue((number,), (2 * number, None if number % 7 == 0 else f"n{number}"))
        for (number,), (twice, _) in self.many.iterator():
            if number % 3 == 0:
                self.many.removeKey((number,))
            elif number % 5 == 0:
                self.many.updateValue((number,), (twice + 1, "five"))
        keys = sorted(number for (number,) in self.many.keys())  # noqa: SIM118
        values = sorted(self.many.values(), key=repr)
        yield told(key, len(keys), sum(keys), values[:3], values[-3:], self.many.getValue((10,)))


class TopArticles(StatefulProcessor):
    """Yields the two articles that sell best, of a map of all (top-k, Databricks)."""

    def init(self, handle: Any) -> None:
        self.sold = handle.getMapState("sold", "article int", "pieces long, last long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            (pieces, last) = self.sold.getValue((row.amount % 6,)) or (0, 0)
            self.sold.updateValue((row.amount % 6,), (pieces + 1, max(last, row.ms)))
        best = sorted(self.sold.iterator(), key=lambda entry: (-entry[1][0], entry[0]))[:2]
        for (article,), (pieces, last) in best:
            yield Row(user=key[0], told=f"{article}: {pieces}, {last}")


class Cart(StatefulProcessor):
    """Puts into a cart, takes out of it, and empties it with every fifth purchase."""

    def init(self, handle: Any) -> None:
        self.cart = handle.getMapState("cart", "article string", "pieces int")
        self.bought = handle.getValueState("bought", "n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            for what, amount in zip(frame["what"], frame["amount"].tolist(), strict=True):
                article = (f"a{amount % 3}",)
                if what == "view":
                    self.cart.updateValue(article, (amount,))
                elif what == "return":
                    self.cart.removeKey(article)
                else:
                    self.bought.update(((self.bought.get() or (0,))[0] + 1,))
                    if self.bought.get()[0] % 5 == 0:
                        yield told(key, sorted(self.cart.iterator()))
                        self.cart.clear()
        yield told(key, self.cart.exists(), sorted(self.cart.keys()), self.cart.getValue(("a1",)))


class Joined(StatefulProcessor):
    """Joins three streams in one, each row a profile, a preference or an event (stream-stream join, Databricks)."""

    def init(self, handle: Any) -> None:
        self.profile = handle.getValueState("profile", "name string")
        self.preferences = handle.getMapState("preferences", "kind int", "liking long")
        self.waiting = handle.getListState("waiting", "kind int, ms long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            for what, amount, ms in zip(frame["what"], frame["amount"].tolist(), frame["ms"].tolist(), strict=True):
                if what == "view":
                    self.profile.update((f"name {amount}",))
                elif what == "buy":
                    self.preferences.updateValue((amount % 3,), (amount,))
                else:
                    self.waiting.appendValue((amount % 3, ms))
        if self.profile.exists() and self.waiting.exists():
            name, waiting = self.profile.get()[0], list(self.waiting.get())
            lines = [repr((name, kind, self.preferences.getValue((kind,)), ms)) for kind, ms in waiting]
            self.waiting.clear()
            yield pd.DataFrame({"user": [key[0]] * len(lines), "told": lines})


CASES = {
    "inventory": Case(Inventory, by_row=True),
    "words": Case(Words, by_row=True, batches=partial(events, 31)),
    "once": Case(Once, output_mode="append", batches=partial(events, 32)),
    "count-min": Case(CountMin, batches=partial(events, 33)),
    "many entries": Case(ManyEntries, batches=partial(events, 34, 4, 12, 3)),
    "top articles": Case(TopArticles, by_row=True, batches=partial(events, 35)),
    "cart": Case(Cart, batches=partial(events, 36)),
    "joined streams": Case(Joined, output_mode="append", batches=partial(events, 37)),
}
