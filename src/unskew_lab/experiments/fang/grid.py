"""The trials behind the figures of Fang et al.: one row each, independent of one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


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
    parts = (_skew, _sweeps, _compact, _rates, _tables, _exponents)
    rows = [trial for seed in scale.seeds for part in parts for trial in part(scale, seed)]
    theorems = [Trial(figure="theorems", planner="mixed", intervals=scale.problems // 4, seed=s) for s in range(4)]
    return rows + theorems


def _skew(s: Scale, seed: int) -> Iterator[Trial]:
    for channels in s.channels:
        yield Trial(figure="7a", planner="consistent", channels=channels, intervals=50, warm_up=0, seed=seed)
    for keys in s.keys:
        yield Trial(figure="7b", planner="consistent", keys=keys, intervals=50, warm_up=0, seed=seed)


def _sweeps(s: Scale, seed: int) -> Iterator[Trial]:
    for planner in ("mixed", "mintable"):
        for window in (1, 5):
            many, few = (_length(s, intervals, seed, window) for intervals in (s.intervals, s.few_intervals))
            for channels in s.channels:
                yield Trial(figure="8", planner=planner, window=window, channels=channels, keys=MILLION, **few)
            for tolerance in s.tolerances:
                yield Trial(figure="9", planner=planner, window=window, tolerance=tolerance, **many)
            for keys in s.keys:
                yield Trial(
                    figure="10", planner=planner, window=window, keys=keys, **(few if keys == MILLION else many)
                )
        for window in s.windows:
            yield Trial(figure="19", planner=planner, window=window, **_length(s, s.intervals, seed, window))


def _compact(s: Scale, seed: int) -> Iterator[Trial]:
    for degree in (-1, *s.degrees):
        yield Trial(figure="11", planner="mixed", keys=MILLION, degree=degree, **_length(s, s.few_intervals, seed))


def _rates(s: Scale, seed: int) -> Iterator[Trial]:
    for rate in s.rates:
        for planner in ("mixed", "mixedbf"):
            yield Trial(figure="12", planner=planner, rate=rate, **_length(s, s.intervals, seed))
        for scale in s.threshold_scales:
            yield Trial(
                figure="12", planner="readj", rate=rate, threshold_scale=scale, **_length(s, s.few_intervals, seed)
            )


def _tables(s: Scale, seed: int) -> Iterator[Trial]:
    for tolerance in (0.02, 0.08, 0.15, 0.30):
        for bits in s.table_bits:
            cap = {"tolerance": tolerance, "table_cap": 2**bits}
            yield Trial(figure="17", planner="mixed", **cap, **_length(s, s.intervals, seed))
            yield Trial(
                figure="17", planner="mixed", channels=30, keys=MILLION, **cap, **_length(s, s.few_intervals, seed)
            )
    for tolerance in s.adjusted:
        yield Trial(
            figure="18", planner="minmig", keys=10_000, tolerance=tolerance, intervals=8192, warm_up=0, seed=seed
        )


def _exponents(s: Scale, seed: int) -> Iterator[Trial]:
    for exponent in s.exponents:
        yield Trial(figure="20", planner="minmig", exponent=exponent, intervals=10, warm_up=0, seed=seed)


def _length(s: Scale, intervals: int, seed: int, window: int = 1) -> dict[str, int]:
    return {"intervals": intervals + window - 1, "warm_up": s.warm_up + window - 1, "seed": seed}
