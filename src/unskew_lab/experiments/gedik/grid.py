"""The trials behind the figures of Gedik's paper: one row each, independent of one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

TABLES = ("scan", "redist", "readj")
METHODS = ("ring", "uniform", "uniform-hash", *TABLES)
RESOURCES = ("CCL", "LCL", "LLL", "LQL")
UTILITIES = ("a", "apm", "aplm", "atm", "atlm")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run: from one channel to several, one by one, the table rebuilt at each step."""

    # "ring" and "uniform" hash alone; "scan", "redist", "readj" build tables; "counter" counts a stream. Uniform
    # hashing takes a key's rank modulo the channels, "uniform-hash" a mixing hash.
    method: str
    # channels, balance_ratio, resources, keys, skew, scale, utility: N, alpha, the functions of state, computation and
    # network, |D|, z, sigma and U; the paper's defaults
    channels: int = 10
    balance_ratio: float = 1.2
    resources: str = "LCL"
    keys: int = 1_000_000
    skew: float = 1.0
    scale: float = 0.1
    utility: str = "apm"
    option: str = ""  # "untracked" counts the load of keys without an entry, "positive" requires a positive gain
    every: bool = False  # measure at every number of channels on the way, not only at the last
    seed: int = 0  # another ring, another stream


@dataclass(frozen=True)
class Grid:
    """How much of each sweep to run; all by default.

    Counters and very large domains vary little and are run less often.
    """

    runs: int = 20
    runs_of_counters: int = 2
    runs_of_ten_million_keys: int = 5
    skews: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)
    skews_quadratic: tuple[float, ...] = (0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
    scales: tuple[float, ...] = (0.008, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0)
    keys: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    ratios: tuple[float, ...] = (1.01, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 4.0)
    counter_channels: tuple[int, ...] = (2, 5, 10, 15, 20, 25, 32)


QUICK = Grid(
    runs=5,
    runs_of_counters=1,
    runs_of_ten_million_keys=0,
    skews=(0.2, 0.5, 0.7, 0.8, 0.9, 1.0),
    skews_quadratic=(0.25, 0.35, 0.5),
    scales=(0.008, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0),
    keys=(10_000, 100_000, 1_000_000),
    ratios=(1.01, 1.2, 2.0, 4.0),
    counter_channels=(2, 10, 20, 32),
)
MOST_CHANNELS = 32


def trials(*, quick: bool) -> list[Trial]:
    """Return the trials of all figures, each once, with a seed per repetition.

    The paper takes means of five runs. Migration depends on whether one of the very hottest keys happens to move, so
    five are too few to tell methods apart; we take more.
    """
    grid = QUICK if quick else Grid()
    wanted = dict.fromkeys(_wanted(grid))
    return [replace(trial, seed=seed) for trial in wanted for seed in range(_runs(grid, trial))]


def _runs(grid: Grid, trial: Trial) -> int:
    if trial.method == "uniform":
        return 1  # no chance in it
    if trial.method == "counter":
        return grid.runs_of_counters
    return grid.runs_of_ten_million_keys if trial.keys == 10_000_000 else grid.runs


def _wanted(grid: Grid) -> Iterator[Trial]:
    """Yield what the figures need, some of it more than once."""
    # Figure 3, and 4 over the skew
    yield from (Trial(method=m, resources=c) for c, m in product(RESOURCES, METHODS))
    for method in METHODS:
        yield from (Trial(method=method, resources=c, skew=z) for c, z in product(("LCL", "LLL"), grid.skews))
        yield from (Trial(method=method, resources="LQL", skew=z) for z in grid.skews_quadratic)
    # Figure 5 over the threshold scale, which hashing does not know, and 6 over the channels
    for method, resources in product(METHODS, ("LCL", "LQL")):
        scales = grid.scales if method in TABLES else (0.1,)
        yield from (Trial(method=method, resources=resources, scale=s) for s in scales)
    yield from (Trial(method=m, channels=MOST_CHANNELS, every=True) for m in METHODS)
    # Figure 7 by utility, 8 over the keys, and the balance ratio
    by_utility = product(("readj", "redist"), RESOURCES[1:], UTILITIES)
    yield from (Trial(method=m, resources=c, utility=u) for m, c, u in by_utility)
    yield from (Trial(method=m, keys=k) for m, k in product(METHODS, grid.keys))
    yield from (Trial(method=m, balance_ratio=a) for m, a in product(TABLES, grid.ratios))
    # the counters of Figures 9 to 11
    for resources in RESOURCES[1:]:
        counter = Trial(method="counter", resources=resources)
        yield from (replace(counter, scale=s) for s in grid.scales)
        yield from (replace(counter, channels=n) for n in grid.counter_channels)
        yield from (replace(counter, skew=z) for z in (grid.skews_quadratic if resources == "LQL" else grid.skews))
    # what the paper does not say it did, where its figures look as if it had
    yield from (Trial(method=m, resources="LLL", option="untracked") for m in TABLES)
    yield Trial(method="readj", resources="LLL", option="positive")
    yield Trial(method="scan", utility="a", channels=MOST_CHANNELS)
    yield from (Trial(method="scan", utility="a", keys=k) for k in grid.keys)
