"""Where hot keys go: new ones by two choices, those of overloaded channels by best fit, and only if moving pays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.planners.base import check
from unskew.planners.problem import Channels, Column

Places = NDArray[np.int64]

RULES = ("none", "printed", "backlog")


class Costs(NamedTuple):
    """What the rule weighs. A named tuple, so that compiled code can take it whole."""

    rule: int  # position in RULES
    message_seconds: float  # time to process a message (t_msg)
    accumulation_seconds: float  # for how long messages pile up (tau), where backlogs are not measured
    lag: Column  # messages waiting per channel; empty where not measured


class Streams(NamedTuple):
    """Hot keys as columns, in the order in which ties are broken."""

    load: Column  # what each weighs (R_k)
    rate: Column  # messages per second
    move_seconds: Column  # what moving its state takes (t_SM)


def worth_moving(
    rule: str,
    *,
    message_seconds: float,
    move_seconds: float,
    rate: float = 1.0,
    source_rate: float = 1.0,
    target_rate: float = 1.0,
    accumulation_seconds: float = 1.0,
    source_lag: float | None = None,
    target_lag: float | None = None,
) -> bool:
    """Tell whether moving a stream and its state pays; inequality (4) in section II of Bhattacharya and Wood.

    Parameters
    ----------
    rule
        ``"none"``: always. ``"printed"``: the paper's inequality (4) as it stands, which holds for next to no stream,
        because it compares shares of messages where counts are meant. ``"backlog"``: if the messages ahead of the
        stream take longer than on the other channel by more than moving the state takes.
    message_seconds, move_seconds
        Time to process one message (t_msg) and to move the stream's state (t_SM).
    rate, source_rate, target_rate
        Messages per second of the stream, of hot streams where it is, and of hot streams where it would go.
    accumulation_seconds
        For how long messages pile up (tau); for ``"backlog"`` without lags.
    source_lag, target_lag
        Messages waiting on both channels, where measured.

    Examples
    --------
    >>> numbers = dict(message_seconds=50e-6, rate=6000, source_rate=30000, target_rate=12000)
    >>> worth_moving("printed", move_seconds=0, **numbers), worth_moving("backlog", move_seconds=0.6, **numbers)
    (False, True)
    >>> worth_moving("backlog", message_seconds=50e-6, move_seconds=4.9, source_lag=100_000, target_lag=0)
    True
    """
    lag = np.empty(0) if source_lag is None or target_lag is None else np.array([source_lag, target_lag], np.float64)
    costs = Costs(rule_number(rule), float(message_seconds), float(accumulation_seconds), lag)
    seconds, own, here, there = (float(number) for number in (move_seconds, rate, source_rate, target_rate))
    return bool(kernel_worth_moving(costs, seconds, own, here, there, 0, 1))


def rule_number(rule: str) -> int:
    """Return the rule as compiled code knows it."""
    check(rule in RULES, "there is no rule of that name", rule, f"one of {', '.join(RULES)}")
    return RULES.index(rule)


@njit(cache=True, error_model="numpy")
def kernel_worth_moving(
    costs: Costs, move_seconds: float, rate: float, source_rate: float, target_rate: float, source: int, target: int
) -> bool:
    """Tell whether a stream should move from channel `source` to `target`; rates are messages per second."""
    if costs.rule == 0:
        return True
    t = costs.message_seconds
    if costs.rule == 1:
        stays = t * (1.0 + (1.0 - rate / source_rate))
        return stays > move_seconds + t * (1.0 + (1.0 - 1.0 / target_rate))
    if len(costs.lag):
        return bool(t * (costs.lag[source] - costs.lag[target]) > move_seconds)
    return move_seconds < t * costs.accumulation_seconds * ((source_rate - rate) - (target_rate - 1.0))


def two_choices(hashes: NDArray[np.int64], channels: int, seed: int) -> Channels:
    """Draw two different channels for each key from its hash and the seed; a single channel is drawn twice.

    >>> two_choices(np.array([7, 8]), channels=4, seed=0).tolist()
    [[0, 3], [0, 2]]
    """
    drawn = np.empty((len(hashes), 2), np.int32)
    _kernel_two_choices(hashes, channels, np.uint64(seed % 2**64), drawn)
    return drawn


@njit(cache=True)
def _kernel_two_choices(hashes: NDArray[np.int64], channels: int, seed: np.uint64, drawn: Channels) -> None:
    """Draw from SplitMix64 of the hash; the second draw is among the channels that are left."""
    for i in range(len(hashes)):
        z = np.uint64(hashes[i]) ^ (seed * np.uint64(0x9E3779B97F4A7C15))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
        first = np.int64((z & np.uint64(0xFFFFFFFF)) % np.uint64(channels))
        second = first
        if channels > 1:
            second = np.int64((z >> np.uint64(32)) % np.uint64(channels - 1))
            second += second >= first
        drawn[i, 0], drawn[i, 1] = first, second


@njit(cache=True)
def kernel_place_new(
    streams: Streams, order: Places, drawn: Channels, costs: Costs, owner: Channels, loads: Column, rates: Column
) -> int:
    """Send each new key, in the order given, to the lighter of its two channels; return how many the rule kept back.

    The channel that gets a key counts it from then on. `owner`, `loads` and `rates` are changed in place.
    """
    refused = 0
    for place in range(len(order)):
        i, a, b = order[place], drawn[place, 0], drawn[place, 1]
        here, there = owner[i], a if loads[a] <= loads[b] else b
        if there != here and not kernel_worth_moving(
            costs, streams.move_seconds[i], streams.rate[i], rates[here] + streams.rate[i], rates[there], here, there
        ):
            there = here
            refused += 1
        owner[i] = there
        loads[there] += streams.load[i]
        rates[there] += streams.rate[i]
    return refused


@njit(cache=True)
def kernel_rebalance(
    streams: Streams,
    ascending: Places,
    first: Places,
    sources: Places,
    costs: Costs,
    owner: Channels,
    loads: Column,
    rates: Column,
) -> int:
    """Take streams off the overloaded channels; return how many moves the rule kept back.

    ``ascending[first[s]:first[s + 1]]`` are the streams of channel s, the lightest first. `sources` are the overloaded
    channels, the heaviest first. `owner`, `loads` and `rates` are changed in place.
    """
    mean, refused = loads.mean(), 0
    for s in sources:
        for i in ascending[first[s] : first[s + 1]]:
            if loads[s] <= mean:
                break
            load, best, best_gap = streams.load[i], -1, np.inf
            for t in range(len(loads)):
                if loads[t] < mean and abs((loads[s] - load) - (loads[t] + load)) < loads[s] - loads[t]:
                    gap = abs((load + loads[t]) - mean)
                    if gap < best_gap:
                        best, best_gap = t, gap
            if best < 0:
                continue
            if not kernel_worth_moving(costs, streams.move_seconds[i], streams.rate[i], rates[s], rates[best], s, best):
                refused += 1
                continue
            owner[i] = best
            loads[s] -= load
            loads[best] += load
            rates[s] -= streams.rate[i]
            rates[best] += streams.rate[i]
    return refused
