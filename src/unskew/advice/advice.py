"""The advice itself: what was found, what each remedy would bring, and one line to change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unskew.advice.keys import Column, KeyLoads
from unskew.advice.predict import (
    BALANCE,
    COUNTING_SECONDS,
    NOW,
    PARTITIONS,
    SPLIT,
    Remedy,
    Timing,
    remedies,
    skew_seconds,
)

WORTH = 1.05  # a smaller gain could be chance
AS_GOOD = 0.97  # of the gain of balance: then the simpler remedy will do
MUCH_MORE = 1.2
EVEN = 1.1  # fullest over mean
KEYS_SHOWN = 10
NOTHING = "nothing"


@dataclass(frozen=True)
class HeavyKey:
    """A key, its share of the load, and the partition that Spark puts it in."""

    key: str
    share: float
    partition: int


@dataclass(frozen=True)
class Found:
    """Where the figures come from, in words."""

    source: str
    key: tuple[str, ...]  # columns; empty if unknown
    unit: str  # of a load: "rows", "seconds", "bytes of state", or a column of the state
    method: str
    error: str
    operation: str = ""  # Spark's name for what holds the state


@dataclass(frozen=True)
class Advice:
    """What `advise` returns. `print` shows it in words, `as_html` writes it as a page to send to a colleague."""

    found: Found
    partitions: int
    cores: int
    distinct_keys: int | None  # None if only partitions are known
    hot_keys: tuple[HeavyKey, ...]  # heaviest first
    partition_loads: tuple[float, ...]  # in `found.unit`
    imbalance: float  # fullest partition over the mean
    seconds: float | None  # of a batch now; None if unknown
    skew_seconds: float | None  # what a batch would save if its work were even; None if unknown
    skew_share: float  # of a batch
    remedies: tuple[Remedy, ...]  # the present first
    best: str  # name of the remedy to take, or "nothing"
    gain: float  # how many times as fast a batch would be; 1 for "nothing"
    verdict: str
    change: str  # the line to change; empty for "nothing"
    gains: tuple[float, ...] = ()  # of the best remedy, or of balance, for each batch that was measured

    def remedy(self, name: str) -> Remedy:
        """Return one of the remedies."""
        return next(each for each in self.remedies if each.name == name)

    def __str__(self) -> str:
        return self.verdict

    def as_html(self) -> str:
        """Return the advice as one page that needs no network."""
        from unskew.advice.page import as_html  # noqa: PLC0415 - its template engine is for those who want a page

        return as_html(self)


def make_advice(
    found: Found, keys: KeyLoads, timing: Timing, *, partitions: int, cores: int, now: Column | None = None
) -> Advice:
    """Judge one batch whose keys are known; see `remedies` for the parameters."""
    loads = keys.by_partition(partitions) if now is None else now
    made = remedies(keys, timing, partitions=partitions, cores=cores, now=now)
    return judge(found, keys, loads, made, skew_seconds(made[0], timing, cores), cores, timing.measured)


def judge(
    found: Found,
    keys: KeyLoads,
    loads: Column,
    made: tuple[Remedy, ...],
    cost: float,
    cores: int,
    measured: bool,
) -> Advice:
    """Choose among remedies and say why; `loads` are those of the partitions, `cost` is what skew costs now."""
    best = choose(made)
    before, partitions = made[0], len(loads)
    owners = np.mod(keys.spark_hashes, partitions)
    total = keys.total
    heavy = [
        HeavyKey(keys.names[place], float(keys.load[place] / total), int(owners[place]))
        for place in range(min(KEYS_SHOWN, len(keys.names)))
        if keys.load[place] > 0
    ]
    chosen = next((each for each in made if each.name == best), before)
    return Advice(
        found=found,
        partitions=partitions,
        cores=cores,
        distinct_keys=keys.distinct_keys,
        hot_keys=tuple(heavy),
        partition_loads=tuple(loads.tolist()),
        imbalance=before.imbalance,
        seconds=before.seconds if measured else None,
        skew_seconds=cost if measured else None,
        skew_share=cost / before.seconds if before.seconds > 0 else 0.0,
        remedies=made,
        best=best,
        gain=chosen.gain,
        verdict=_verdict(best, made, heavy, measured),
        change=change(best, found.key, chosen.tasks),
    )


def choose(made: Sequence[Remedy]) -> str:
    """Return the remedy to take: the simplest that is about as good as the best, or none."""
    gains = {each.name: each.gain for each in made}
    if max(gains[BALANCE], gains[PARTITIONS]) < WORTH:
        return SPLIT if gains[SPLIT] >= WORTH else NOTHING
    if gains[PARTITIONS] >= AS_GOOD * gains[BALANCE]:
        return PARTITIONS
    return BALANCE


def change(best: str, key: Sequence[str], tasks: int) -> str:
    """Return the line to change.

    >>> change(BALANCE, ["user", "day"], 8)
    'events.groupBy("user", "day")  becomes  unskew.balance(events, "user", "day")'
    """
    names = ", ".join(f'"{name}"' for name in key) or '"key"'
    balanced = f"events.groupBy({names})  becomes  unskew.balance(events, {names}"
    return {
        BALANCE: f"{balanced})",
        SPLIT: f'{balanced}, split="auto")',
        PARTITIONS: f'spark.conf.set("spark.sql.shuffle.partitions", "{tasks}"), with a new checkpoint',
    }.get(best, "")


def _verdict(best: str, made: Sequence[Remedy], heavy: Sequence[HeavyKey], measured: bool) -> str:
    by_name = {each.name: each for each in made}
    before, balanced, split = by_name[NOW], by_name[BALANCE], by_name[SPLIT]
    fullest = f"the fullest partition has {before.imbalance:.2f} times the mean"
    if best == NOTHING:
        return f"{_nothing(before, fullest)} {_cost(balanced, measured)}"
    hottest = f" The hottest key is {heavy[0].key}, with {heavy[0].share:.0%} of the load." if heavy else ""
    limit = "" if measured else " if work per row is all that a batch does"
    if best == SPLIT:
        return (
            f"Your keys are skewed: {fullest}.{hottest} It is too heavy for one task, so balance alone brings nothing. "
            f"Splitting it would make a batch {split.gain:.2f} times as fast{limit}, {split.condition}."
        )
    chosen = by_name[best]
    text = f"Your keys are skewed: {fullest}.{hottest}"
    if best == PARTITIONS:
        return (
            f"{text} {chosen.tasks} partitions would make a batch {chosen.gain:.2f} times as fast{limit}. That will do."
        )
    text += f" Balance would make a batch {chosen.gain:.2f} times as fast{limit}."
    if split.gain > MUCH_MORE * chosen.gain:
        text += f" Splitting the hottest keys would make it {split.gain:.2f} times as fast, {split.condition}."
    return text


def _nothing(before: Remedy, fullest: str) -> str:
    if before.imbalance < EVEN:
        return f"Your keys are even: {fullest}."
    return f"Your keys are skewed, but a batch hardly waits for them: {fullest}."


def _cost(balanced: Remedy, measured: bool) -> str:
    if not measured:
        return f"unskew would gain nothing, and cost about {COUNTING_SECONDS:.2f} s a batch for counting."
    slower = 1 / balanced.gain - 1
    if slower < 0.005:
        return f"unskew would gain {max(balanced.gain - 1, 0):.0%}, which could be chance."
    return f"unskew would cost {slower:.0%}."
