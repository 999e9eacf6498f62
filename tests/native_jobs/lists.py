"""Processors with list state, after Spark's own tests, Databricks' examples and users' articles."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from native_jobs.case import Case, events, told


class TopScores(StatefulProcessor):
    """Keeps the three greatest amounts (Spark's tests of its tester)."""

    def init(self, handle: Any) -> None:
        self.top = handle.getListState("top", "score double")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        scores = [score for (score,) in self.top.get()] if self.top.exists() else []
        for frame in rows:
            scores += frame["amount"].astype(float).tolist()
        scores = sorted(scores, reverse=True)[:3]
        self.top.put([(score,) for score in scores])
        yield pd.DataFrame({"user": [key[0]] * len(scores), "told": [repr(score) for score in scores]})


class Parcels(StatefulProcessor):
    """Collects what happens to an order, and passes it on when the order is delivered (an article)."""

    def init(self, handle: Any) -> None:
        self.so_far = handle.getListState("so far", "what string, ms long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        delivered = False
        for frame in rows:
            self.so_far.appendList(list(zip(frame["what"], frame["ms"], strict=True)))
            delivered |= bool((frame["what"] == "return").any())
        if delivered:
            yield told(key, *self.so_far.get())
            self.so_far.clear()


class SmallThenLarge(StatefulProcessor):
    """Suspects a card that makes three small payments and then a large one."""

    def init(self, handle: Any) -> None:
        self.recent = handle.getListState("recent", "amount long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        recent = [amount for (amount,) in self.recent.get()]
        for row in rows:
            if row.amount > 30 and sum(amount < 15 for amount in recent[-5:]) >= 3:
                yield Row(user=key[0], told=f"{row.amount} after {recent[-5:]}")
            recent.append(row.amount)
        self.recent.put([(amount,) for amount in recent[-5:]])


class Funnel(StatefulProcessor):
    """Counts how far keys get from view to buy to return, one entry a step."""

    def init(self, handle: Any) -> None:
        self.steps = handle.getListState("steps", "what string, ms long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            done = list(self.steps.get())
            if row.what == ("view", "buy", "return")[len(done)]:
                self.steps.appendValue((row.what, row.ms))
                done = list(self.steps.get())
                yield Row(user=key[0], told=f"step {len(done)}")
            if len(done) == 3:
                yield Row(user=key[0], told=f"through {done}")
                self.steps.clear()


class MovingMean(StatefulProcessor):
    """Yields the mean of the last five amounts with every row."""

    def init(self, handle: Any) -> None:
        self.last = handle.getListState("last", "amount long, weight float")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        kept, means = list(self.last.get()), []
        for frame in rows:
            for amount in frame["amount"]:
                kept = [*kept, (amount, 0.1)][-5:]
                means.append(sum(each for each, _ in kept) / len(kept))
        self.last.put(kept)
        yield pd.DataFrame({"user": [key[0]] * len(means), "told": [f"{mean:.6f}" for mean in means]})
        yield told(key, *self.last.get())


class TwoLists(StatefulProcessor):
    """Reads two lists at once, and one of them twice; empties one, appends in both ways (Spark's own tests)."""

    def init(self, handle: Any) -> None:
        self.numbers = handle.getListState("numbers", "n int")
        self.words = handle.getListState("words", "word string, n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            self.numbers.put([(0,)])
            self.words.appendValue(("first", None))
            self.numbers.appendList([(int(amount) // 2,) for amount in frame["amount"]])
            self.words.appendList([(what, n) for n, what in enumerate(frame["what"])])
            self.numbers.appendValue((111,))
        seen, one, other = [], self.numbers.get(), self.words.get()
        again = self.numbers.get()
        for number, word in zip(one, other, strict=False):
            seen.append((number, word, next(again)))
        if len(list(self.words.get())) > 20:
            self.words.clear()
        yield told(key, seen, self.words.exists(), self.numbers.exists())


class LongLists(StatefulProcessor):
    """Appends 150 entries a batch, more than Spark's client asks for at once (Spark's own tests)."""

    def init(self, handle: Any) -> None:
        self.many = handle.getListState("many", "n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        n = sum(len(frame) for frame in rows)
        if self.many.exists():
            self.many.appendList([(number + n,) for number in range(150)])
        else:
            self.many.put([(number,) for number in range(150)])
        numbers = [number for (number,) in self.many.get()]
        first = self.many.get()
        yield told(key, len(numbers), sum(numbers), numbers[99:102], next(first), next(first))


class Distinct(StatefulProcessor):
    """Remembers what it has seen in a list, each once, in the order in which it came."""

    def init(self, handle: Any) -> None:
        self.seen = handle.getListState("seen", "what string, even boolean")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        seen = set(self.seen.get())
        for row in rows:
            new = (row.what, row.amount % 2 == 0)
            if new not in seen:
                seen.add(new)
                self.seen.appendValue(new)
                yield Row(user=key[0], told=repr(new))
        yield Row(user=key[0], told=repr(list(self.seen.get())))


CASES = {
    "top scores": Case(TopScores),
    "parcels": Case(Parcels, output_mode="append", batches=partial(events, 21)),
    "small then large": Case(SmallThenLarge, output_mode="append", by_row=True, batches=partial(events, 22, 4, 90)),
    "funnel": Case(Funnel, output_mode="append", by_row=True, batches=partial(events, 23)),
    "moving mean": Case(MovingMean, batches=partial(events, 24)),
    "two lists": Case(TwoLists, batches=partial(events, 25)),
    "long lists": Case(LongLists, batches=partial(events, 26)),
    "distinct": Case(Distinct, by_row=True, batches=partial(events, 27)),
}
