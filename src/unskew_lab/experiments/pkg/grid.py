"""The trials behind the tables and figures of Partial Key Grouping: one row each, independent of one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

WORKERS = (5, 10, 50, 100)
SOURCES = (5, 10, 15, 20)
STAND_INS = ("wp", "tw", "ct", "lj", "sl1", "sl2", "ln1", "ln2")
REAL = ("words", "flights")
WHOLE_SIZE = {
    "wp": 22_000_000,
    "tw": 20_000_000,  # of 1.2 billion
    "ct": 690_000,
    "lj": 20_000_000,  # of 69 million
    "sl1": 905_000,
    "sl2": 948_000,
    "ln1": 10_000_000,
    "ln2": 10_000_000,
    "zipf": 10_000_000,
    "words": 1_300_000,
    "flights": 336_776,
    "edges": 10_000_000,
    "wp-pinned": 22_000_000,
}
GRAPHS: dict[str, dict[str, Any]] = {
    "lj": {"keys": 4_900_000, "exponent": 0.698},
    "sl1": {"keys": 80_200, "exponent": 0.849},
}
ZIPF_1_2: dict[str, Any] = {"data": "zipf", "exponent": 1.2, "keys": 1_000_000}
SKEWED: dict[str, Any] = {**ZIPF_1_2, "workers": (5, 10, 40, 50, 100)}
UNHASHED = ("off-greedy", "on-greedy")  # a seed changes nothing


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One stream under one scheme, for several numbers of workers and several families of hash functions."""

    figure: str  # table or figure that it belongs to: "table 2", "4" ... "9", "memory".
    data: str  # workload that the stream is of
    # exponent, keys: Zipf's law, where that is the workload
    exponent: float = 0.0
    keys: int = 0
    # scheme, choices: name in the registry, and choices of Greedy-d
    scheme: str = "pkg"
    choices: int = 0
    # sources, estimate, feed: how many sources, what they know of the loads, and how tuples reach them
    sources: int = 5
    estimate: str = "local"
    feed: str = "round-robin"
    probes: int = 0  # how often loads are probed over the whole stream
    workers: tuple[int, ...] = WORKERS  # numbers of channels to try
    messages: int = 0  # length of the stream
    seeds: int = 1  # how many families of hash functions to try, one after the other


@dataclass(frozen=True)
class Scale:
    """How much of each sweep to run; all by default."""

    most_messages: int = 10_000_000
    table_messages: int = 22_000_000
    seeds: int = 7
    sweep_seeds: int = 5
    exponents: tuple[float, ...] = tuple(round(0.1 * tenths, 1) for tenths in range(1, 21))
    keys: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    choices: tuple[int, ...] = (*range(1, 17), 20, 24, 28, 32, 36, 40)
    graphs: tuple[str, ...] = ("lj", "sl1")


QUICK = Scale(
    most_messages=400_000,
    table_messages=2_000_000,
    seeds=5,
    sweep_seeds=3,
    exponents=(0.2, 0.6, 0.8, 1.0, 1.2, 1.4, 1.8),
    choices=(1, 2, 3, 4, 6, 7, 8, 9, 10, 12, 16, 20, 24, 32, 40),
    graphs=("lj",),
)


def trials(*, quick: bool) -> list[Trial]:
    """Return the trials of the table and all figures, each once."""
    scale = QUICK if quick else Scale()
    return [replace(trial, messages=_messages(scale, trial), seeds=_seeds(scale, trial)) for trial in _wanted(scale)]


def _messages(scale: Scale, trial: Trial) -> int:
    most = scale.table_messages if trial.figure == "table 2" else scale.most_messages
    if trial.figure == "memory":
        return WHOLE_SIZE[trial.data]  # the number of counters is a claim in itself, and not proportional to anything
    if trial.figure in ("5", "beyond"):
        most = max(most, 1_000_000)
    return min(most, WHOLE_SIZE[trial.data])


def _seeds(scale: Scale, trial: Trial) -> int:
    if trial.scheme in UNHASHED or trial.figure == "memory":
        return 1
    return scale.sweep_seeds if trial.figure in ("5", "7", "8", "9", "beyond") else scale.seeds


def _wanted(scale: Scale) -> Iterator[Trial]:
    for data, scheme in product(("wp", "tw"), ("pkg", "off-greedy", "on-greedy", "static-potc", "key")):
        yield Trial(figure="table 2", data=data, scheme=scheme, sources=1, estimate="global")
    for data in (*STAND_INS, *REAL):
        yield Trial(figure="4", data=data, scheme="key", sources=1)
        yield Trial(figure="4", data=data, sources=1, estimate="global")
        yield from (Trial(figure="4", data=data, sources=s) for s in SOURCES)
    for data, (estimate, probes) in product(("tw", "wp", "ct"), (("global", 0), ("local", 0), ("probed", 1440))):
        yield Trial(figure="5", data=data, estimate=estimate, probes=probes)
    for exponent, sources in product((0.2, 0.4, 0.6, 0.8, 1.0, 1.2), (5, 10, 20)):
        yield Trial(figure="6", data="zipf", exponent=exponent, keys=10_000, sources=sources, workers=(5,))
    yield Trial(figure="6", data="wp", workers=(5, 10))
    yield from (Trial(figure="7", data="zipf", exponent=z, keys=k) for z, k in product(scale.exponents, scale.keys))
    for graph, sources, feed in product(scale.graphs, SOURCES, ("round-robin", "hash")):
        yield Trial(figure="8", data="edges", **GRAPHS[graph], sources=sources, feed=feed)
    yield from (Trial(figure="9", scheme="greedy-d", choices=d, **SKEWED) for d in scale.choices)
    for scheme, workers in (("key", 10), ("pkg", 8), ("shuffle", 8)):
        yield Trial(figure="memory", data="wp-pinned", scheme=scheme, sources=8, workers=(workers,))
    yield from (Trial(figure="beyond", scheme=scheme, **SKEWED) for scheme in ("pkg", "d-choices", "w-choices"))
