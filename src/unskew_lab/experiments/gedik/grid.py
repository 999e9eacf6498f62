"""The trials behind the figures of Gedik's paper: one row each, independent of one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

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
    parts = (_resources, _skews, _scales, _channels, _utilities, _domains, _ratios, _counters, _explanations)
    wanted = dict.fromkeys(trial for part in parts for trial in part(grid))
    return [replace(trial, seed=seed) for trial in wanted for seed in range(_runs(grid, trial))]


def _runs(grid: Grid, trial: Trial) -> int:
    if trial.method == "uniform":
        return 1  # no chance in it
    if trial.method == "counter":
        return grid.runs_of_counters
    return grid.runs_of_ten_million_keys if trial.keys == 10_000_000 else grid.runs


def _resources(grid: Grid) -> Iterator[Trial]:
    for resources in RESOURCES:
        for method in METHODS:
            yield Trial(method=method, resources=resources)


def _skews(grid: Grid) -> Iterator[Trial]:
    for method in METHODS:
        for resources in ("LCL", "LLL"):
            for skew in grid.skews:
                yield Trial(method=method, resources=resources, skew=skew)
        for skew in grid.skews_quadratic:
            yield Trial(method=method, resources="LQL", skew=skew)


def _scales(grid: Grid) -> Iterator[Trial]:
    for method in METHODS:
        for resources in ("LCL", "LQL"):
            for scale in grid.scales if method in TABLES else (0.1,):
                yield Trial(method=method, resources=resources, scale=scale)


def _channels(grid: Grid) -> Iterator[Trial]:
    for method in METHODS:
        yield Trial(method=method, channels=MOST_CHANNELS, every=True)


def _utilities(grid: Grid) -> Iterator[Trial]:
    for method in ("readj", "redist"):
        for resources in ("LCL", "LLL", "LQL"):
            for utility in UTILITIES:
                yield Trial(method=method, resources=resources, utility=utility)


def _domains(grid: Grid) -> Iterator[Trial]:
    for method in METHODS:
        for keys in grid.keys:
            yield Trial(method=method, keys=keys)


def _ratios(grid: Grid) -> Iterator[Trial]:
    for method in TABLES:
        for ratio in grid.ratios:
            yield Trial(method=method, balance_ratio=ratio)


def _counters(grid: Grid) -> Iterator[Trial]:
    for resources in ("LCL", "LLL", "LQL"):
        for scale in grid.scales:
            yield Trial(method="counter", resources=resources, scale=scale)
        for channels in grid.counter_channels:
            yield Trial(method="counter", resources=resources, channels=channels)
        for skew in grid.skews_quadratic if resources == "LQL" else grid.skews:
            yield Trial(method="counter", resources=resources, skew=skew)


def _explanations(grid: Grid) -> Iterator[Trial]:
    """Yield what the paper does not say it did, where its figures look as if it had."""
    for method in TABLES:
        yield Trial(method=method, resources="LLL", option="untracked")
    yield Trial(method="readj", resources="LLL", option="positive")
    yield Trial(method="scan", utility="a", channels=MOST_CHANNELS)
    for keys in grid.keys:
        yield Trial(method="scan", utility="a", keys=keys)
