"""Fang's planners as the specification defines them, key by key: slow, obvious, and the truth for the fast ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from unskew.planners import Problem


@dataclass
class Outcome:
    owner: list[int]
    loads: list[float]
    forced: int
    popped: list[int] = field(default_factory=list)


class Plain:
    def __init__(self, problem: Problem, tolerance: float, exponent: float = 1.5) -> None:
        self.n = problem.channels
        self.keys = range(len(problem.cost))
        self.cost = problem.cost.tolist()
        self.state = problem.state.tolist()
        self.home = problem.home.tolist()
        self.cur = [c if c < self.n else h for c, h in zip(problem.current.tolist(), self.home, strict=True)]
        self.background = problem.background_cost.tolist()
        self.mean = (sum(self.cost) + sum(self.background)) / self.n
        self.cap = (1 + tolerance) * self.mean + 1e-9 * self.mean
        self.exponent = exponent
        self.table = [k for k in self.keys if self.cur[k] != self.home[k]]

    def loads(self, owner: list[int]) -> list[float]:
        return [self.background[d] + sum(self.cost[k] for k in self.keys if owner[k] == d) for d in range(self.n)]

    def overloaded(self) -> bool:
        return self.mean > 0 and max(self.loads(self.cur)) > self.cap

    def by_cost(self, k: int) -> tuple[float, int]:
        return (-self.cost[k], k)

    def by_gamma(self, k: int) -> tuple[float, int]:
        if self.cost[k] == 0:
            return (0.0, k)
        if self.state[k] == 0:
            return (-math.inf, k)
        power = self.cost[k] * math.sqrt(self.cost[k]) if self.exponent == 1.5 else self.cost[k] ** self.exponent
        return (-(power / self.state[k]), k)

    def run(self, cleaned: int, rank) -> Outcome:
        owner: list[int | None] = list(self.cur)
        for k in sorted(self.table, key=lambda k: (self.state[k], k))[:cleaned]:
            owner[k] = self.home[k]
        loads = self.loads(owner)
        candidates = set()
        for d in range(self.n):
            for k in sorted((k for k in self.keys if owner[k] == d and self.cost[k] > 0), key=rank):
                if loads[d] <= self.cap:
                    break
                owner[k] = None
                loads[d] -= self.cost[k]
                candidates.add(k)
        forced, popped = 0, []
        while candidates:
            k = min(candidates, key=self.by_cost)
            candidates.remove(k)
            popped.append(k)
            c = self.cost[k]
            for d in sorted(range(self.n), key=lambda d: (loads[d], d)):
                evicted = []
                if loads[d] + c > self.cap:
                    others = [x for x in self.keys if owner[x] == d and 0 < self.cost[x] < c]
                    if loads[d] + c - sum(self.cost[x] for x in others) > self.cap:
                        continue
                    for x in sorted(others, key=rank):
                        if loads[d] + c - sum(self.cost[y] for y in evicted) <= self.cap:
                            break
                        evicted.append(x)
                for x in evicted:
                    owner[x] = None
                    loads[d] -= self.cost[x]
                    candidates.add(x)
                break
            else:
                forced += 1
                d = min(range(self.n), key=lambda d: (loads[d], d != self.cur[k], d != self.home[k], d))
            owner[k] = d
            loads[d] += c
        return Outcome(owner, loads, forced, popped)

    def table_size(self, outcome: Outcome) -> int:
        return sum(o != h for o, h in zip(outcome.owner, self.home, strict=True))

    def migration(self, outcome: Outcome) -> float:
        return sum(s for o, c, s in zip(outcome.owner, self.cur, self.state, strict=True) if o != c)

    def keep(self) -> Outcome:
        return Outcome(list(self.cur), self.loads(self.cur), 0)

    def llfd(self) -> Outcome:
        return self.run(0, self.by_cost) if self.overloaded() else self.keep()

    def must_act(self, table_cap: float) -> bool:
        return self.mean > 0 and (self.overloaded() or len(self.table) > table_cap)

    def min_table(self, table_cap: float = math.inf) -> Outcome:
        return self.run(len(self.table), self.by_cost) if self.must_act(table_cap) else self.keep()

    def min_mig(self) -> Outcome:
        return self.run(0, self.by_gamma) if self.overloaded() else self.keep()

    def mixed(self, table_cap: float) -> tuple[Outcome, list[tuple[int, int]], bool]:
        if not self.must_act(table_cap):
            return self.keep(), [], False
        trials, n = [], 0
        while True:
            outcome = self.run(n, self.by_gamma)
            size = self.table_size(outcome)
            trials.append((n, size))
            if size <= table_cap:
                return outcome, trials, False
            if n == len(self.table):
                return self.run(n, self.by_cost), trials, True
            n = min(len(self.table), n + size - int(table_cap)) if len(trials) < 16 else len(self.table)

    def mixed_bf(self, table_cap: float) -> Outcome:
        if not self.must_act(table_cap):
            return self.keep()
        best = None
        for n in range(len(self.table) + 1):
            outcome = self.run(n, self.by_gamma)
            size = self.table_size(outcome)
            judged = (max(outcome.loads) > self.cap, size > table_cap, self.migration(outcome), size, n)
            if best is None or judged < best[0]:
                best = (judged, outcome)
        return best[1]

    def simple(self) -> Outcome:
        if not self.overloaded():
            return self.keep()
        loads, owner = list(self.background), [0] * len(self.keys)
        for k in sorted(self.keys, key=self.by_cost):
            d = min(range(self.n), key=lambda d: (loads[d], d))
            owner[k] = d
            loads[d] += self.cost[k]
        return Outcome(owner, loads, 0)


def random_problem(rng: np.random.Generator) -> Problem:
    """Draw a small problem full of ties: few channels, integer costs and states, zeros among them."""
    channels, keys = int(rng.integers(1, 7)), int(rng.integers(0, 25))
    highest = int(rng.choice([2, 5, 20, 60]))
    before = max(1, channels + int(rng.integers(-1, 2)))
    home = rng.integers(0, channels, keys)
    moved = rng.random(keys) < rng.choice([0.0, 0.3, 1.0])
    current = np.where(moved, rng.integers(0, max(before, 1), keys), np.minimum(home, before - 1))
    problem = Problem.of_keys(
        rng.integers(0, highest + 1, keys),
        channels=channels,
        current=current,
        home=home,
        state=rng.integers(0, highest + 1, keys),
        channels_before=before,
    )
    if rng.random() < 0.3:
        background = rng.integers(0, highest + 1, channels).astype(float)
        object.__setattr__(problem, "background_cost", background)
    return problem
