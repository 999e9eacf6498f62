"""The trials behind the figures of Fang et al.: one row each, independent of one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run: a planner adapts to a drifting stream interval by interval, or theorems are put to the test.

    Defaults are those of the paper's Table II as far as they can be told; the print of the defaults is lost.
    """

    figure: str  # figure that it belongs to, or "theorems"
    planner: str  # name in the registry
    # channels, keys, skew, rate: N_D, K, the exponent z of Zipf's law, and the fluctuation rate f
    channels: int = 15
    keys: int = 100_000
    skew: float = 0.85
    rate: float = 1.0
    # tolerance, table_cap, window, exponent: theta_max, A_max, w and beta
    tolerance: float = 0.08
    table_cap: int = 3000
    window: int = 1
    exponent: float = 1.5
    degree: int = -1  # r of the compact representation; -1 plans on the keys themselves
    threshold_scale: float = 0.1  # sigma, for Readj
    # intervals, warm_up: how many intervals to run, and how many of them not to count. For theorems: how many problems.
    intervals: int = 50
    warm_up: int = 5
    seed: int = 0  # chooses one of many equally likely streams


@dataclass(frozen=True)
class Scale:
    """How much of each sweep to run; all by default."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    intervals: int = 50
    few_intervals: int = 20  # for a million keys
    warm_up: int = 5
    channels: tuple[int, ...] = (5, 10, 15, 20, 25, 30, 35, 40)
    tolerances: tuple[float, ...] = (0.0, 0.02, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
    keys: tuple[int, ...] = (5_000, 10_000, 100_000, 1_000_000)
    degrees: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7, 8)
    rates: tuple[float, ...] = (0.1, 0.2, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0)
    threshold_scales: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    table_bits: tuple[int, ...] = tuple(range(1, 14))
    adjusted: tuple[float, ...] = (0.02, 0.08, 0.15, 0.30)  # tolerances of Figure 18
    windows: tuple[int, ...] = (1, 5, 10, 15, 20)
    exponents: tuple[float, ...] = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0)
    problems: int = 20_000


QUICK = Scale(
    seeds=(0,),
    intervals=12,
    few_intervals=6,
    warm_up=2,
    channels=(5, 15, 25, 35, 40),
    tolerances=(0.02, 0.08, 0.2, 0.4),
    degrees=(0, 1, 3, 5, 8),
    rates=(0.1, 0.5, 1.0, 2.0),
    threshold_scales=(0.02, 0.1, 0.5),
    table_bits=(1, 7, 9, 10, 11, 12, 13),
    adjusted=(0.02, 0.30),
    windows=(1, 5, 20),
    exponents=(1.0, 1.25, 1.5, 1.75, 2.0),
    problems=1_200,
)
MILLION = 1_000_000


def trials(*, quick: bool) -> list[Trial]:
    """Return the trials of all figures that planners alone can answer, and of the theorems.

    Figures 8 and 17 run on a million keys: the paper balances 40 channels, and with fewer keys the hottest one alone
    is more than a channel may hold. Figure 17 runs on 30 channels as well as on the 15 that were guessed.
    """
    scale = QUICK if quick else Scale()
    rows = [trial for seed in scale.seeds for trial in _wanted(scale, seed)]
    theorems = [Trial(figure="theorems", planner="mixed", intervals=scale.problems // 4, seed=s) for s in range(4)]
    return rows + theorems


def _wanted(s: Scale, seed: int) -> Iterator[Trial]:
    hashed = Trial(figure="7a", planner="consistent", intervals=50, warm_up=0, seed=seed)
    yield from (replace(hashed, channels=n) for n in s.channels)
    yield from (replace(hashed, figure="7b", keys=k) for k in s.keys)
    many, few = (_length(s, intervals, seed) for intervals in (s.intervals, s.few_intervals))
    for planner in ("mixed", "mintable"):
        for window in (1, 5):
            longer = Trial(figure="9", planner=planner, window=window, **_length(s, s.intervals, seed, window))
            large = replace(longer, figure="8", keys=MILLION, **_length(s, s.few_intervals, seed, window))
            yield from (replace(large, channels=n) for n in s.channels)
            yield from (replace(longer, tolerance=t) for t in s.tolerances)
            yield from (replace(large if k == MILLION else longer, figure="10", keys=k) for k in s.keys)
        for window in s.windows:
            yield Trial(figure="19", planner=planner, window=window, **_length(s, s.intervals, seed, window))
    yield from (Trial(figure="11", planner="mixed", keys=MILLION, degree=d, **few) for d in (-1, *s.degrees))
    for rate in s.rates:
        yield from (Trial(figure="12", planner=planner, rate=rate, **many) for planner in ("mixed", "mixedbf"))
        readj = Trial(figure="12", planner="readj", rate=rate, **few)
        yield from (replace(readj, threshold_scale=scale) for scale in s.threshold_scales)
    for tolerance, bits in product((0.02, 0.08, 0.15, 0.30), s.table_bits):
        capped = Trial(figure="17", planner="mixed", tolerance=tolerance, table_cap=2**bits, **many)
        yield from (capped, replace(capped, channels=30, keys=MILLION, **few))
    adjusted = Trial(figure="18", planner="minmig", keys=10_000, intervals=8192, warm_up=0, seed=seed)
    yield from (replace(adjusted, tolerance=t) for t in s.adjusted)
    single = Trial(figure="20", planner="minmig", intervals=10, warm_up=0, seed=seed)
    yield from (replace(single, exponent=beta) for beta in s.exponents)


def _length(s: Scale, intervals: int, seed: int, window: int = 1) -> dict[str, Any]:
    return {"intervals": intervals + window - 1, "warm_up": s.warm_up + window - 1, "seed": seed}
