"""Sites whose memory does not suffice: partitions on disk, and the rotation that brings each back for a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unskew_lab.simulation.dataplane import NONE
from unskew_lab.simulation.setup import TUPLE_BYTES

if TYPE_CHECKING:
    from unskew_lab.simulation.cluster import Cluster


class Disks:
    """Spills partitions by synchronous I/O: while a site reads or writes, it does nothing else.

    Over its memory, a site writes out its longest resident partitions one by one. Input for partitions on disk is
    written too. Where all memory is taken, the site rotates: it serves live input for a while, then swaps its longest
    resident partition for the one that has been on disk longest, and works off that one's input. Where memory is free,
    it reads one back. Messages are handled between two operations; while a site waits for ACKs it begins none.
    """

    def __init__(self, cluster: Cluster) -> None:
        setup = cluster.setup
        self.cluster = cluster
        self.memory_bytes = np.full(setup.nodes, setup.memory_bytes)
        held = [np.flatnonzero(cluster.data.holder == j).tolist() for j in range(setup.nodes)]
        self.resident = [deque[int](partitions) for partitions in held]
        self.spilled: list[deque[int]] = [deque() for _ in held]
        self._claimed: list[set[int]] = [set() for _ in held]
        self._inbox: list[list[Callable[[], None]]] = [[] for _ in held]
        self._busy = [False for _ in held]
        self._rotating = [False for _ in held]
        self._after_backlog: list[Callable[[], None] | None] = [None for _ in held]
        for change in setup.memory_changes:
            cluster.at(change.start_seconds, partial(self._set_memory, change.site, change.memory_bytes))

    def when_free(self, site: int, action: Callable[[], None]) -> None:
        """Call `action` as soon as the site looks at its messages: at once, or when its I/O ends."""
        if self._busy[site]:
            self._inbox[site].append(action)
        else:
            action()

    def claim(self, site: int, p: int, then: Callable[[], None]) -> None:
        """Keep a partition in memory until it leaves, reading it first if need be; then go on."""
        self._claimed[site].add(p)
        if not self.cluster.data.on_disk[p]:
            self.resident[site].remove(p)
            then()
            return
        self.spilled[site].remove(p)
        self._read(site, p, lambda: None, then)

    def release(self, site: int, p: int) -> None:
        self._claimed[site].discard(p)
        self._later(site)

    def add(self, site: int, p: int) -> None:
        self.resident[site].append(p)
        self._later(site)

    def backlog_done(self, site: int) -> None:
        """Go on after the input of a partition that was on disk has been worked off."""
        then, self._after_backlog[site] = self._after_backlog[site], None
        if then is not None:
            self._free(site, then)

    def _set_memory(self, site: int, memory_bytes: float) -> None:
        self.memory_bytes[site] = memory_bytes
        self._later(site)

    def _room(self, site: int) -> float:
        held = len(self.resident[site]) + len(self._claimed[site])
        return float(self.memory_bytes[site]) - held * self.cluster.setup.state_bytes

    def _later(self, site: int) -> None:
        self.when_free(site, lambda: self._next(site))

    def _next(self, site: int) -> None:
        if self._busy[site] or site in self.cluster.movements.quiescing:
            return
        room = self._room(site)
        if room < 0 and self.resident[site]:
            self._evict(site, lambda: self._next(site))
        elif self.spilled[site] and room >= self.cluster.setup.state_bytes:
            self._read_oldest(site)
        elif self.spilled[site] and self.resident[site] and not self._rotating[site]:
            self._rotating[site] = True
            self.cluster.at(self.cluster.now + self.cluster.setup.rotation_seconds, lambda: self._rotate(site))

    def _rotate(self, site: int) -> None:
        self._rotating[site] = False
        if self._busy[site] or site in self.cluster.movements.quiescing:
            self._later(site)
        elif self.spilled[site] and self.resident[site]:
            self._evict(site, lambda: self._next(site))

    def _evict(self, site: int, then: Callable[[], None]) -> None:
        p = self.resident[site].popleft()
        self.cluster.data.on_disk[p] = True
        self.spilled[site].append(p)
        self._stop(site, self._marshal(site) + self._io(self.cluster.setup.state_bytes), lambda: None, then)

    def _read_oldest(self, site: int) -> None:
        p = self.spilled[site].popleft()
        self._read(site, p, lambda: self.resident[site].append(p), lambda: self._next(site))

    def _read(self, site: int, p: int, finish: Callable[[], None], then: Callable[[], None]) -> None:
        data = self.cluster.data

        def finished() -> None:
            data.on_disk[p] = False
            finish()
            if data.pending[p]:
                data.backlog[site] = p

        pending_bytes = float(data.pending[p]) * TUPLE_BYTES
        self._stop(site, self._marshal(site) + self._io(self.cluster.setup.state_bytes + pending_bytes), finished, then)

    def _marshal(self, site: int) -> float:
        setup = self.cluster.setup
        return float(setup.state_tuples * setup.marshal_seconds / self.cluster.data.capacity[site])

    def _io(self, size_bytes: float) -> float:
        setup = self.cluster.setup
        seek = max(0.0, float(self.cluster.disk_noise.normal(setup.seek_seconds, setup.seek_deviation_seconds)))
        return seek + size_bytes / setup.disk_bytes_per_second

    def _stop(self, site: int, seconds: float, finish: Callable[[], None], then: Callable[[], None]) -> None:
        """Stop a site; when it is over `finish`, handle the messages that came meanwhile, and go on with `then`."""
        c = self.cluster
        self._busy[site] = True
        c.data.stopped_until[site] = c.now + seconds

        def end() -> None:
            finish()
            if c.data.backlog[site] == NONE:
                self._free(site, then)
            else:
                self._after_backlog[site] = then

        c.at(c.now + seconds, end)

    def _free(self, site: int, then: Callable[[], None]) -> None:
        self._busy[site] = False
        waiting, self._inbox[site] = self._inbox[site], []
        for action in [*waiting, then]:
            self.when_free(site, action)
