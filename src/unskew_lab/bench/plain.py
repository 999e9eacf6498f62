"""The planners' ideas in plain Python, key by key: what compiled code is measured against."""

from __future__ import annotations

import heapq
import math

import numpy as np
from numpy.typing import NDArray

from unskew.planners import Problem


def plain_min_mig(problem: Problem, tolerance: float, exponent: float = 1.5) -> NDArray[np.int32]:
    """Return MinMig's owners: LLFD with exchanges, by migration priority.

    Agrees with ``planner("minmig")`` on problems that list every key and lose no channel.
    """
    cost, state, owner = problem.cost.tolist(), problem.state.tolist(), problem.current.tolist()
    channels = range(problem.channels)
    mean = sum(cost) / problem.channels
    cap = (1 + tolerance) * mean + 1e-9 * mean
    loads, held = [0.0] * problem.channels, [set[int]() for _ in channels]
    for key, channel in enumerate(owner):
        loads[channel] += cost[key]
        held[channel].add(key)
    if max(loads) <= cap:
        return problem.current

    def rank(key: int) -> tuple[float, int]:
        power = cost[key] * math.sqrt(cost[key]) if exponent == 1.5 else cost[key] ** exponent
        return (-power / state[key] if state[key] else -math.inf, key)

    heap: list[tuple[float, int]] = []

    def release(channel: int, key: int) -> None:
        loads[channel] -= cost[key]
        held[channel].discard(key)
        heapq.heappush(heap, (-cost[key], key))

    for channel in channels:
        if loads[channel] > cap:
            for key in sorted((k for k in held[channel] if cost[k] > 0), key=rank):
                if loads[channel] <= cap:
                    break
                release(channel, key)
    while heap:
        key = heapq.heappop(heap)[1]
        for channel in sorted(channels, key=lambda c: (loads[c], c)):
            excess = loads[channel] + cost[key] - cap
            evicted: list[int] = []
            if excess > 0:
                lighter = [k for k in held[channel] if 0 < cost[k] < cost[key]]
                if excess > sum(cost[k] for k in lighter):
                    continue
                for other in sorted(lighter, key=rank):
                    if excess <= 0:
                        break
                    evicted.append(other)
                    excess -= cost[other]
            for other in evicted:
                release(channel, other)
            break
        else:
            channel = min(channels, key=lambda c: (loads[c], c != problem.current[key], c != problem.home[key], c))
        owner[key] = channel
        loads[channel] += cost[key]
        held[channel].add(key)
    return np.array(owner, np.int32)


def plain_scan(share: list[float], current: list[int], channels: int, deviation: float) -> list[int]:
    """Return scan's channels for hot keys, heaviest first: one linear resource, utility APM, nothing dropped."""
    loads, owner, migrated = [0.0] * channels, [], 0.0
    ideal = sum(share) / channels
    for key, weight in enumerate(share):
        best, best_utility = -1, math.inf
        for channel in sorted(range(channels), key=lambda c: (c != current[key], c)):
            loads[channel] += weight
            mean = sum(loads) / channels
            penalty = max((max(loads) - min(loads)) / (deviation * mean), 1e-12)
            utility = penalty + (migrated + weight * (channel != current[key])) / ideal
            loads[channel] -= weight
            if utility < best_utility - 1e-12 * max(1.0, abs(best_utility)) or best < 0:
                best, best_utility = channel, utility
        owner.append(best)
        loads[best] += weight
        migrated += weight * (best != current[key])
    return owner


def plain_best_fit(load: list[float], current: list[int], channels: int) -> list[int]:
    """Return where SMALOPS moves hot keys that are all known as such: the lightest of overloaded channels first."""
    loads, owner, held = [0.0] * channels, list(current), [list[int]() for _ in range(channels)]
    for key, channel in enumerate(current):
        loads[channel] += load[key]
        held[channel].append(key)
    mean = sum(loads) / channels
    for source in sorted((c for c in range(channels) if loads[c] > mean), key=lambda c: (-loads[c], c)):
        for key in sorted(held[source], key=lambda k: (load[k], k)):
            if loads[source] <= mean:
                break
            gap = loads[source] - 2 * load[key]
            nearer = [t for t in range(channels) if loads[t] < mean and abs(gap - loads[t]) < loads[source] - loads[t]]
            if nearer:
                target = min(nearer, key=lambda t: (abs(load[key] + loads[t] - mean), t))
                owner[key] = target
                loads[source] -= load[key]
                loads[target] += load[key]
    return owner


def plain_lossy_counting(stream: list[int], error: float) -> dict[int, tuple[int, int]]:
    """Return the entries of lossy counting after a stream: key to (count, maximal undercount)."""
    window, entries = math.ceil(1 / error), dict[int, tuple[int, int]]()
    for number, key in enumerate(stream):
        closed = number // window
        count, undercount = entries.get(key, (0, closed))
        entries[key] = (count + 1, undercount)
        if (number + 1) % window == 0:
            entries = {k: (c, u) for k, (c, u) in entries.items() if c + u > closed + 1}
    return entries
