"""Gedik's three algorithms once more, in plain Python: slow, obvious, straight from the definitions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

BETA = {"constant": lambda f: 1.0, "linear": lambda f: f, "quadratic": lambda f: f * f}
UTILITY = {
    "a": lambda rho, gamma: rho,
    "apm": lambda rho, gamma: rho + gamma,
    "aplm": lambda rho, gamma: rho + math.log(1 + gamma),
    "atm": lambda rho, gamma: rho * (1 + gamma),
    "atlm": lambda rho, gamma: rho * (1 + math.log(1 + gamma)),
}


@dataclass
class Case:
    """One problem: tuples of all keys, where they are, where the hash puts them, and the parameters."""

    tuples: list[float]
    current: list[int]
    home: list[int]
    channels: int
    resources: tuple[str, str, str] = ("linear", "constant", "linear")
    alpha: float = 1.2
    sigma: float = 0.1
    utility: str = "apm"
    positive_only: bool = False
    max_moves: int = 5
    before: int | None = None

    def __post_init__(self):
        total = sum(self.tuples)
        self.freq = [t / total for t in self.tuples]
        n = self.channels
        self.theta = self.alpha * n / (self.alpha + n - 1) - 1
        self.kinds = [r for r in self.resources if r != "constant"]
        delta = self.threshold()
        tracked = [d for d, f in enumerate(self.freq) if f >= delta and f > 0]
        self.items = sorted(tracked, key=lambda d: (-self.freq[d], d))
        before = n if self.before is None else self.before
        dropped = [
            d
            for d, (old, new) in enumerate(zip(self.current, self.home, strict=True))
            if d not in tracked and old != new and old < n and new < before  # else it only follows the resized hash
        ]
        self.state = [BETA[self.resources[0]](f) for f in self.freq]
        self.first_cost = sum(self.state[d] for d in dropped)
        self.ideal = (sum(self.state[d] for d in tracked) + self.first_cost) / n

    def threshold(self):
        slack, n, keys = self.sigma * self.theta, self.channels, len(self.tuples)
        deltas = {"constant": 1.0, "linear": slack / n, "quadratic": math.sqrt(slack / (keys * n))}
        first = min(deltas[r] for r in self.resources)
        known = [f for f in self.freq if f >= first]
        total = sum(f * f for f in known)
        if keys > len(known):
            total += (keys - len(known)) * (max(0.0, 1 - sum(known)) / (keys - len(known))) ** 2
        deltas["quadratic"] = math.sqrt(slack * total / n)
        return min(min(1.0, deltas[r]) for r in self.resources)

    def penalty(self, table):
        product = 1.0
        for kind in self.kinds:
            loads = [0.0] * self.channels
            for d, channel in table.items():
                loads[channel] += BETA[kind](self.freq[d])
            mean = sum(loads) / self.channels
            product *= max((max(loads) - min(loads)) / (self.theta * mean), 1e-12)
        return product ** (1 / len(self.kinds))

    def judge(self, table, cost):
        return UTILITY[self.utility](self.penalty(table), cost / self.ideal)

    def price(self, d, channel):
        return self.state[d] * (channel != self.current[d])


def pick(candidates):
    """Return the payload of the lowest score; of those that it does not beat, the first."""
    best = min(score for score, _ in candidates)
    return next(what for score, what in candidates if not best < score - 1e-12 * max(1.0, abs(score)))


def channels_to_try(case, d):
    own = case.current[d]
    return ([own] if own < case.channels else []) + [c for c in range(case.channels) if c != own]


def scan(case):
    table, cost = {}, case.first_cost
    for d in case.items:
        channel = pick([(case.judge({**table, d: c}, cost + case.price(d, c)), c) for c in channels_to_try(case, d)])
        table[d] = channel
        cost += case.price(d, channel)
    return table


def redist(case, order=None):
    table, cost, left = {}, case.first_cost, list(case.items)
    while left:
        d, channel = pick(
            [
                (case.judge({**table, d: c}, cost + case.price(d, c)) / case.freq[d], (d, c))
                for d in left
                for c in channels_to_try(case, d)
            ]
        )
        table[d] = channel
        cost += case.price(d, channel)
        left.remove(d)
        if order is not None:
            order.append(d)
    return table


def readj(case, *, steps=None, printed_break=False, printed_stale_utility=False, forced_moves_cost=True):
    """Improve step by step; the options bring back defects of the printed listing."""
    table = {d: case.current[d] if case.current[d] < case.channels else case.home[d] for d in case.items}
    cost = case.first_cost
    if forced_moves_cost:
        cost += sum(case.price(d, c) for d, c in table.items())
    moves = dict.fromkeys(case.items, 0)
    stale = 0.0
    while table:
        rho0 = case.penalty(table)
        u0 = UTILITY[case.utility](rho0, cost / case.ideal)
        exchanges = [(d, None, j) for d in case.items for j in range(case.channels) if j != table[d]]
        exchanges += [(d, e, table[e]) for d in case.items for e in case.items if table[d] < table[e]]
        candidates = []
        for d, e, j in exchanges:
            shifted = case.freq[d] - (case.freq[e] if e is not None else 0.0)
            if moves[d] >= case.max_moves or (e is not None and moves[e] >= case.max_moves) or shifted == 0:
                continue
            after = {**table, d: j} | ({e: table[d]} if e is not None else {})
            rho = case.penalty(after)
            if not rho < rho0 * (1 - 1e-12):
                if printed_break:
                    break
                continue
            extra = sum(case.price(x, after[x]) - case.price(x, table[x]) for x in (d, e) if x is not None)
            u = UTILITY[case.utility](rho, (cost + extra) / case.ideal)
            gain = ((stale if printed_stale_utility else u0) - u) / abs(shifted)
            if printed_stale_utility:
                stale = u
            if not case.positive_only or gain > 1e-12:
                candidates.append((-gain, (d, e, j, extra)))
        if not candidates:
            break
        d, e, j, extra = pick(candidates)
        if e is not None:
            table[e] = table[d]
            moves[e] += 1
        table[d] = j
        moves[d] += 1
        cost += extra
        if steps is not None:
            steps.append((d, e, j))
    return table


@pytest.fixture(scope="session")
def slow():
    """Give the plain algorithms: Case, scan, redist, readj, and owners() to lay a table over the homes."""

    def owners(case, table):
        return [table.get(d, case.home[d]) for d in range(len(case.tuples))]

    return SimpleNamespace(Case=Case, scan=scan, redist=redist, readj=readj, owners=owners)
