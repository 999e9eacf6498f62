"""The trials behind SMALOPS' figures: one topic under one way of routing each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

CONTENDERS = ("smalops", "kafka", "round-robin")
SERVICES = (10.0, 20.0, 30.0, 40.0, 50.0)
LONGEST = 50.0
BRINK = 0.97  # busy share of Kafka's fullest consumer where a system is said to be just below overload


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run of the simulator."""

    # what it is for: a figure of the paper (8 shows the runs of 7), "7-long", "7-brink" and "7-burst" for other
    # readings of what the paper leaves open, "rule" for state that moves along, "hot-keys" for counts
    figure: str
    contender: str = "smalops"  # who routes
    service_us: float = LONGEST  # microseconds a consumer takes for a message
    partitions: int = 12  # of the topic
    # mean busy share of the consumers at 50 us a message; at fewer it is lower in proportion. 0 stands for the share at
    # which Kafka's fullest consumer is at the brink.
    utilisation: float = 0.85
    # hot_by, hot_threshold: what is hot
    hot_by: str = "share"
    hot_threshold: float = 0.001
    # shift, shift_seconds: how far keys shift, and how often
    shift: int = 0
    shift_seconds: float = 60.0
    burst: float = 1.0  # messages at one instant
    rule: str = "none"  # when state may move
    gateways: int = 1  # gateways that share the keys, where hot keys are counted
    # key_count, run_seconds, seed: of the topic
    key_count: int = 1_000_000
    run_seconds: float = 40.0
    seed: int = 0


@dataclass(frozen=True)
class Grid:
    """How much to run; all by default."""

    seeds: int = 3
    partitions: tuple[int, ...] = (8, 12, 16)
    seconds: float = 40.0
    long_seconds: float = 300.0
    bursts: tuple[float, ...] = (5.0, 20.0, 100.0)
    covers: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
    shares: tuple[float, ...] = (0.02, 0.01, 0.003, 0.001, 0.0003, 0.0001)
    shifts: tuple[int, ...] = (1, 100, 10_000)
    shift_seconds: float = 60.0
    dynamic_seconds: float = 150.0


QUICK = Grid(
    seeds=2,
    partitions=(8,),
    seconds=30.0,
    long_seconds=100.0,
    bursts=(20.0,),
    covers=(0.02, 0.1, 0.2, 0.3, 0.7),
    shares=(0.02, 0.001),
    shifts=(1, 10_000),
    shift_seconds=15.0,
    dynamic_seconds=40.0,
)


def trials(*, quick: bool) -> list[Trial]:
    """Return all runs, each once; with `quick`, one number of partitions, fewer seeds and shorter runs."""
    grid = QUICK if quick else Grid()
    return [
        replace(trial, seed=seed)
        for trial in _wanted(grid)
        for seed in range(1 if trial.figure in ("7-long", "hot-keys", "rule") else grid.seeds)
    ]


def _wanted(grid: Grid) -> Iterator[Trial]:
    usual = Trial(figure="7", partitions=grid.partitions[0], run_seconds=grid.seconds)
    both = ("smalops", "kafka")
    for partitions, service, who in product(grid.partitions, SERVICES, CONTENDERS):
        yield replace(usual, contender=who, partitions=partitions, service_us=service)
    for who in both:
        yield replace(usual, figure="7-long", contender=who, run_seconds=grid.long_seconds)
    for service, who in product((20.0, LONGEST), both):
        yield replace(usual, figure="7-brink", contender=who, service_us=service, utilisation=0.0)
    for burst, who in product(grid.bursts, both):
        yield replace(usual, figure="7-burst", contender=who, service_us=20.0, burst=burst)
    for hot_by, thresholds in (("cover", grid.covers), ("share", grid.shares)):
        yield from (replace(usual, figure="9", hot_by=hot_by, hot_threshold=threshold) for threshold in thresholds)
    dynamic = replace(usual, figure="10", shift_seconds=grid.shift_seconds, run_seconds=grid.dynamic_seconds)
    for shift, service, who in product(grid.shifts, (20.0, LONGEST), both):
        yield replace(dynamic, contender=who, service_us=service, shift=shift)
    yield from (replace(usual, figure="rule", rule=rule) for rule in ("none", "printed", "backlog"))
    for gateways, shift in ((1, 0), (14, 0), (1, 1_000)):
        yield Trial(figure="hot-keys", gateways=gateways, shift=shift, key_count=28_000_000)
