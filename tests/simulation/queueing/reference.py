"""Consumers that keep keys in order, played event by event with a heap: slow and obvious."""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count


class Consumer:
    def __init__(self) -> None:
        self.queue: deque = deque()
        self.urgent: deque = deque()
        self.busy = False
        self.aside: dict[int, list[int]] = {}
        self.open: set[int] = set()
        self.closed: set[int] = set()


def play(arrival, partition, label, set_partition, previous, markers, service, handover, consumers):
    """Return when each message was taken and begun; markers are (set, partition, time).

    Returns None if a consumer became free at the very instant a set was released to it: either may come first then.
    """
    following = {p: s for s, p in enumerate(previous) if p >= 0}
    crew = [Consumer() for _ in range(consumers)]
    for s, before in enumerate(previous):
        if before < 0:
            crew[set_partition[s]].open.add(s)
    order, events = count(), []
    for i, (when, p) in enumerate(zip(arrival, partition, strict=True)):
        heapq.heappush(events, (when, next(order), "queue", p, ("message", i)))
    for place, (s, p, when) in enumerate(sorted(markers, key=lambda marker: (marker[2], marker[1]))):
        heapq.heappush(events, (when, place - len(markers), "queue", p, ("close", s)))
    taken, begun = {}, {}
    last: dict[tuple[str, int], float] = {}

    def finish(s: int, now: float) -> None:
        after = following[s]
        heapq.heappush(events, (now + handover, next(order), "done", set_partition[after], after))

    def act(c: Consumer, p: int, now: float) -> None:
        while not c.busy:
            if c.urgent:
                kind, what = c.urgent.popleft()
                if kind == "end":
                    if what in c.closed:
                        finish(what, now)
                    continue
                begun[what] = now
            elif c.queue:
                kind, what = c.queue.popleft()
                if kind == "close":
                    c.closed.add(what)
                    if what in c.open:
                        finish(what, now)
                    continue
                taken[what] = now
                if label[what] >= 0 and label[what] not in c.open:
                    c.aside.setdefault(label[what], []).append(what)
                    continue
                begun[what] = now
            else:
                return
            c.busy = True
            heapq.heappush(events, (now + service, next(order), "free", p, None))

    while events:
        now, _, kind, p, what = heapq.heappop(events)
        c = crew[p]
        other = {"free": "done", "done": "free"}.get(kind)
        if other and abs(last.get((other, p), -1.0) - now) < 1e-9:
            return None
        last[kind, p] = now
        if kind == "queue":
            c.queue.append(what)
        elif kind == "free":
            c.busy = False
        else:
            c.open.add(what)
            c.urgent.extend(("message", i) for i in c.aside.pop(what, []))
            c.urgent.append(("end", what))
        act(c, p, now)
    return taken, begun
