"""Time, what happens next, and the messages that passed."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

CONTROLLER = -1  # the controller's number among the sites


class Message(NamedTuple):
    """A message as it arrived."""

    seconds: float
    kind: str
    source: int
    target: int
    partition: int


class Clock:
    """Calls functions at their time, in the order of time, then of the calls to `at`.

    >>> clock = Clock()
    >>> clock.at(2.0, lambda: print("second"))
    >>> clock.at(1.0, lambda: print("first"))
    >>> while clock.next_seconds < 3:
    ...     clock.step()
    first
    second
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    @property
    def next_seconds(self) -> float:
        """When the next event is due; infinity if none is."""
        return self._events[0][0] if self._events else float("inf")

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(seconds, self.now), next(self._order), action))

    def step(self) -> None:
        seconds, _, action = heapq.heappop(self._events)
        self.now = max(self.now, seconds)
        action()
