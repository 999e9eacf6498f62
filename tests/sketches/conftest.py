"""The definitions of the sketches, tuple by tuple and in plain Python: slow and obvious."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest


class PlainLossyCounting:
    """Lossy counting as it is printed: one tuple at a time."""

    def __init__(self, error: float) -> None:
        self.width = math.ceil(1 / error)
        self.n = 0
        self.entries: dict[int, tuple[int, int]] = {}

    def insert(self, key: int) -> None:
        window = self.n // self.width + 1
        count, max_undercount = self.entries.get(key, (0, window - 1))
        self.entries[key] = (count + 1, max_undercount)
        self.n += 1
        if self.n % self.width == 0:
            self.entries = {key: entry for key, entry in self.entries.items() if sum(entry) > window}

    def insert_all(self, keys: Iterable[int]) -> PlainLossyCounting:
        for key in keys:
            self.insert(key)
        return self


class PlainSlidingLossyCounting:
    """The staggered counters as the specification rules: one tuple at a time."""

    def __init__(self, window: int, error: float, counters: int) -> None:
        self.window, self.error, self.counters = window, error, counters
        self.stagger = window // (counters - 1)
        self.n = 0
        self.started: dict[int, PlainLossyCounting] = {}

    def insert(self, key: int) -> None:
        turn, rest = divmod(self.n, self.stagger)
        if rest == 0:
            self.started[turn % self.counters] = PlainLossyCounting(self.error)
        for counter in self.started.values():
            counter.insert(key)
        self.n += 1

    @property
    def active(self) -> PlainLossyCounting:
        if self.n < self.window:
            return self.started[0]
        return self.started[(self.n // self.stagger - (self.counters - 1)) % self.counters]


class PlainSpaceSaving:
    """SpaceSaving as it is printed; of several least counts the first in the list gives way."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.entries: list[list[int]] = []

    def insert(self, key: int, weight: int = 1) -> None:
        if weight == 0:
            return
        for entry in self.entries:
            if entry[0] == key:
                entry[1] += weight
                return
        if len(self.entries) < self.capacity:
            self.entries.append([key, weight, 0])
            return
        least = min(count for _, count, _ in self.entries)
        for entry in self.entries:
            if entry[1] == least:
                entry[:] = [key, least + weight, least]
                return


@pytest.fixture(scope="session")
def plain_lossy_counting() -> type[PlainLossyCounting]:
    return PlainLossyCounting


@pytest.fixture(scope="session")
def plain_sliding_lossy_counting() -> type[PlainSlidingLossyCounting]:
    return PlainSlidingLossyCounting


@pytest.fixture(scope="session")
def plain_space_saving() -> type[PlainSpaceSaving]:
    return PlainSpaceSaving
