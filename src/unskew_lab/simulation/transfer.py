"""State movers: background transfers that share the network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from unskew_lab.simulation.clock import Clock


@dataclass
class _Transfer:
    bits_left: float
    then: Callable[[], None]


class StateMovers:
    """Sends state from site to site. Concurrent transfers share the cross-section equally, each up to its own limit.

    >>> clock = Clock()
    >>> movers = StateMovers(clock, bits_per_second=8.0, cross_section=8.0)
    >>> movers.send(2, lambda: print("two bytes after", clock.now))
    >>> movers.send(1, lambda: print("one byte after", clock.now))
    >>> while clock.next_seconds < 99:
    ...     clock.step()
    one byte after 2.0
    two bytes after 3.0
    """

    def __init__(self, clock: Clock, bits_per_second: float, cross_section: float) -> None:
        self.clock = clock
        self.bytes_sent = 0.0
        self._limits = (bits_per_second, cross_section)
        self._active: list[_Transfer] = []
        self._updated = 0.0
        self._plan = 0

    def send(self, size_bytes: float, then: Callable[[], None]) -> None:
        self._progress()
        self.bytes_sent += size_bytes
        self._active.append(_Transfer(8 * size_bytes, then))
        self._await_next()

    def _rate(self) -> float:
        each, together = self._limits
        return min(each, together / max(1, len(self._active)))

    def _progress(self) -> None:
        sent = self._rate() * (self.clock.now - self._updated)
        for transfer in self._active:
            transfer.bits_left -= sent
        self._updated = self.clock.now

    def _await_next(self) -> None:
        self._plan += 1
        plan = self._plan
        if self._active:
            shortest = min(transfer.bits_left for transfer in self._active)
            self.clock.at(self.clock.now + max(shortest, 0.0) / self._rate(), lambda: self._finish(plan))

    def _finish(self, plan: int) -> None:
        if plan != self._plan:  # another transfer began since: the rates have changed
            return
        self._progress()
        done = [transfer for transfer in self._active if transfer.bits_left <= 1e-3]
        self._active = [transfer for transfer in self._active if transfer.bits_left > 1e-3]
        self._await_next()
        for transfer in done:
            transfer.then()
