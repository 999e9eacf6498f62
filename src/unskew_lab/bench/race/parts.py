"""Which contenders run on which streams, the headline first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from unskew.errors import MissingPackageError
from unskew.workloads.flights import Flights, flights_file
from unskew.workloads.fluctuation import Fluctuation
from unskew.workloads.social import Social
from unskew.workloads.stock import Stock
from unskew.workloads.tpch import DbgenKeys
from unskew_lab.bench.race.contenders import (
    D_CHOICES,
    EVERYBODY,
    MIN_TABLE,
    PKG,
    ROUND_ROBIN,
    SALTING,
    SHUFFLE,
    SPARKS_HASH,
    SPLIT,
    TOLERANCES,
    Contender,
    mixed,
    readj,
)
from unskew_lab.bench.race.race import Setup
from unskew_lab.bench.race.streams import CHANNELS, Stream, fluctuating, shifting

BOUNDS = (ROUND_ROBIN, SPARKS_HASH)


@dataclass(frozen=True)
class Part:
    """One stream and who runs on it."""

    stream: Stream
    contenders: Sequence[Contender]
    setup: Setup = field(default_factory=Setup)


def quick_parts() -> list[Part]:
    """Return one stream on which no owner can carry the hottest key, on few batches."""
    stream = replace(shifting(1.4, epochs=1, hold=4), warm_up=2)
    return [Part(stream, (*BOUNDS, mixed(0.02), SPLIT), Setup(work_seconds=1.0, short=True))]


def whole_parts() -> Iterator[Part]:
    """Yield everything, most important first."""
    yield Part(shifting(1.0, epochs=1, hold=40), (*BOUNDS, mixed(0.02), mixed(0.01)))
    yield Part(shifting(1.4, epochs=1, hold=20), (*BOUNDS, SPLIT, PKG, D_CHOICES, SALTING))
    yield Part(replace(shifting(1.0, epochs=1, hold=20), name="all on Zipf 1.0"), EVERYBODY)
    yield from grid()


def grid() -> Iterator[Part]:
    """Yield the papers' figures: skew, fluctuation, the real streams, one more channel."""
    everyday, brief = (*BOUNDS, mixed(0.02), SPLIT, PKG), Setup(work_seconds=1.5)
    for exponent in (0.6, 0.8, 1.2, 2.0):
        yield Part(shifting(exponent, epochs=1, hold=16), everyday, Setup(work_seconds=2.0))
    for rate in (0.0, 0.5, 1.0, 2.0):
        contenders = (*BOUNDS, mixed(0.08), *readj(sigmas=(0.1, 0.01)), PKG)
        yield Part(fluctuating(rate, epochs=2, hold=6), contenders, brief)
    for delay, work_seconds in (("short", 0.5), ("long", 5.0)):
        words = replace(shifting(1.0, epochs=1, hold=10), name=f"word count, {delay} delay")
        yield Part(words, (*BOUNDS, PKG, SHUFFLE), Setup(work_seconds=work_seconds))
    tolerances = [
        *(mixed(tolerance) for tolerance in TOLERANCES),
        *(each for tolerance in (0.02, 0.15, 0.3) for each in readj(tolerance, sigmas=(0.01,))),
        MIN_TABLE,
    ]
    social = Stream("Social", Social(), epochs=2, hold=6)
    yield Part(social, (*BOUNDS, *tolerances, PKG), brief)
    yield Part(Stream("Stock", Stock(), rows=20_000, epochs=2, hold=6, work="join"), (*BOUNDS, *tolerances), brief)
    orders = Fluctuation(base=DbgenKeys(exponent=0.8, key_count=15_000, sparse=True), rate=1.0, channels=CHANNELS)
    yield Part(Stream("TPC-H Q5, line items by order", orders, epochs=2, hold=6), (*BOUNDS, *tolerances), brief)
    try:
        flights_file()
        yield Part(Stream("flights", Flights(key="tailnum"), rows=10_000, epochs=1, hold=20), everyday)
    except MissingPackageError:
        pass
    one_more = replace(brief, channels=CHANNELS - 1, resize_to=CHANNELS)
    scaled = replace(social, name="Social, one more channel", epochs=1, hold=16)
    yield Part(scaled, (*BOUNDS, mixed(0.1), *readj(0.1, sigmas=(0.01,)), PKG), one_more)
