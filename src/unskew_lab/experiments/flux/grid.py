"""The trials behind Flux's figures: what is simulated for each point of each curve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from unskew.planners.base import planner
from unskew_lab.simulation.setup import Data, MemoryChange, Routing, Setup, Slowdown

NODES = 32
FIGURES = ("3", "6", "7", "8", "9", "10", "memory", "mixed")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run of the simulator."""

    # where its curve stands: a figure of the paper, "memory" for the text on many sites short of memory, "mixed" for
    # CPU load and lack of memory together. Figures 9 and 10 show the same runs.
    figure: str
    series: str  # which curve
    # where on it: tuples of buffer (3), loaded sites (7), shortest collection in seconds (8), sites short of memory
    x: float = 0.0
    loaded: int = 0  # sites under external load
    data: Data = "uniform"  # how the groups weigh
    seconds: float = 30.0  # simulated time
    seed: int = 0  # another stream, other loaded sites


@dataclass(frozen=True)
class Grid:
    """How much of each curve to run; all by default."""

    seeds: int = 5
    buffers: tuple[int, ...] = (0, 128, 256, 512, 1024, 2048, 4096, 8192)
    loaded_sites: tuple[int, ...] = (0, 1, 2, 4, 8, 12, 16, 20, 24, 28, 32)
    collections: tuple[float, ...] = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.375, 0.5, 0.75, 1.0, 2.0)
    collection_run_seconds: float = 60.0
    squeezed_sites: tuple[int, ...] = (1, 2, 4, 8, 12, 14, 16, 20, 24, 32)
    squeezed_run_seconds: float = 200.0
    once: bool = False


QUICK = Grid(
    seeds=2,
    buffers=(0, 128, 512, 2048, 8192),
    loaded_sites=(0, 1, 4, 8, 16, 24, 32),
    collections=(0.01, 0.05, 0.25, 1.0),
    collection_run_seconds=20.0,
    squeezed_sites=(1, 8, 14, 32),
    squeezed_run_seconds=170.0,
    once=True,
)


def trials(quick: bool) -> list[Trial]:
    """Return all runs; with `quick`, fewer points, two seeds, and one where curves are many."""
    grid = QUICK if quick else Grid()
    return [
        replace(trial, seed=seed)
        for trial in _wanted(grid)
        for seed in range(1 if grid.once and trial.figure in ("7", "8", "memory", "mixed") else grid.seeds)
    ]


def trials_of(figure: str) -> list[Trial]:
    """Return the quick runs of one figure, one seed each; Figure 10 shows those of 9."""
    return [trial for trial in _wanted(QUICK) if trial.figure == ("9" if figure == "10" else figure)]


def _wanted(grid: Grid) -> Iterator[Trial]:
    yield Trial(figure="3", series="unloaded", x=2048, seconds=16)
    for buffer, series in product(grid.buffers, ("flux", "exchange", "river")):
        yield Trial(figure="3", series=series, x=buffer, loaded=NODES, seconds=16)
    yield Trial(figure="6", series="unperturbed")
    yield from (Trial(figure="6", series=s, loaded=1) for s in ("static", "balanced", "balanced-50ms"))
    for count, series in product(grid.loaded_sites, ("static", "balanced")):
        yield Trial(figure="7", series=series, x=count, loaded=count, seconds=30)
    for data in ("self-similar", "two-class"):
        for loaded in (0, 8):
            static = Trial(figure="8", series="static", data=data, loaded=loaded, seconds=grid.collection_run_seconds)
            yield static
            yield from (replace(static, series="balanced", x=shortest) for shortest in grid.collections)
    for series in ("unperturbed", "static", "policy"):
        yield Trial(figure="9", series=series, loaded=int(series != "unperturbed"), seconds=80)
    for count, series in product(grid.squeezed_sites, ("static", "policy")):
        yield Trial(figure="memory", series=series, x=count, loaded=count, seconds=grid.squeezed_run_seconds)
    for series in ("static", "flux-load", "flux-memory", "flux-hybrid"):
        yield Trial(figure="mixed", series=series, loaded=4, seconds=100)


def setup_of(trial: Trial) -> Setup:
    """Return what the simulator has to run for a trial."""
    common = Setup(seconds=trial.seconds, data=trial.data, seed=trial.seed)
    balanced = replace(common, planner=planner("flux-load")) if trial.series.startswith("balanced") else common
    if trial.series == "balanced-50ms":  # 10 ms and 50 ms are the two readings of an illegible number
        balanced = replace(balanced, shortest_collection_seconds=0.05)
    sites = np.random.default_rng([trial.seed, 7]).permutation(NODES)
    match trial.figure:
        case "3":
            routing: Routing = "exchange" if trial.series == "exchange" else "flux"
            routing = "river" if trial.series == "river" else routing
            turns = tuple(Slowdown(site, site / 2, site / 2 + 0.5) for site in range(trial.loaded))
            return replace(common, routing=routing, pool_tuples=int(trial.x), slowdowns=turns)
        case "6":
            return replace(balanced, slowdowns=(Slowdown(0, 5.0),) if trial.loaded else ())
        case "7":
            return replace(balanced, slowdowns=tuple(Slowdown(int(s), 0.0) for s in sites[: trial.loaded]))
        case "8":
            hottest = int(common.weights().argmax()) // common.partitions_per_node
            chosen = [hottest, *(int(s) for s in sites if s != hottest)][: trial.loaded]
            slow = tuple(Slowdown(site, 0.0) for site in chosen)
            shortest = trial.x or common.shortest_collection_seconds
            return replace(balanced, slowdowns=slow, shortest_collection_seconds=shortest)
        case "9" | "memory":
            who = planner("flux-memory") if trial.series == "policy" else None
            squeezed = tuple(MemoryChange(int(s), 5.0) for s in sites[: trial.loaded])
            return replace(_memory(common), planner=who, memory_changes=squeezed)
        case _:
            who = None if trial.series == "static" else planner(trial.series)
            squeezed = tuple(MemoryChange(int(s), 5.0) for s in sites[: trial.loaded // 2])
            slow = tuple(Slowdown(int(s), 5.0) for s in sites[trial.loaded // 2 : trial.loaded])
            return replace(_memory(common), planner=who, memory_changes=squeezed, slowdowns=slow)


def _memory(setup: Setup) -> Setup:
    return replace(setup, partitions_per_node=128, state_tuples=75_000)
