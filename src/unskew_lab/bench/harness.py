"""Warm-up, repeats, median and spread, contenders interleaved, and the one form in which results are printed."""

from __future__ import annotations

import abc
import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from unskew import machine
from unskew.errors import ArgumentError
from unskew.registry import Registry

Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Row:
    """One measured number.

    >>> Row("hash int64", "unskew", 118.4, "M rows/s", target=100).met
    True
    >>> Row("plan a million keys", "unskew", 61.0, "ms", target=50, better="lower").met
    False
    >>> Row("hash int64", "numpy", 40.0, "M rows/s").met is None
    True
    """

    name: str  # what was measured: "hash int64"
    contender: str  # who did it: "unskew", "numpy", "plain Python"
    value: float
    unit: str
    ratio: float | None = None  # to the value of the contender that it is compared with, measured in the same run
    target: float | None = None  # the value that was hoped for, in the same unit
    better: Better = "higher"  # whether a "higher" or a "lower" value is better; decides `met`
    # what was measured again and again, in order and in the same unit, if the value sums that up; gives `spread`
    samples: Sequence[float] = ()
    # where the value lies with 95 % confidence, low and high, if that was estimated
    interval: tuple[float, float] | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None where there is no target."""
        if self.target is None:
            return None
        return self.value >= self.target if self.better == "higher" else self.value <= self.target

    @property
    def spread(self) -> float | None:
        """The interquartile range of the samples; None where there are less than two.

        >>> Row("batch", "unskew", 3.0, "s", samples=(1.0, 2.0, 3.0, 4.0, 5.0)).spread
        2.0
        """
        return Timing.of(self.samples).spread_seconds if len(self.samples) > 1 else None

    def as_dict(self) -> dict[str, object]:
        """Return the seven fields that a report holds."""
        names = ("name", "contender", "value", "unit", "ratio", "target", "met")
        return {name: getattr(self, name) for name in names}

    def as_record(self) -> dict[str, object]:
        """Return all that is known, for the file: the seven fields, what is better, spread, samples and interval."""
        samples = [float(f"{sample:.5g}") for sample in self.samples]
        more = {"better": self.better, "spread": self.spread, "samples": samples}
        return {**self.as_dict(), **more, "interval": self.interval and list(self.interval)}


@dataclass(frozen=True)
class Timing:
    """Seconds of one contender: the median, the interquartile range as spread, and all samples in order."""

    median_seconds: float
    spread_seconds: float
    samples: tuple[float, ...]

    @classmethod
    def of(cls, samples: Sequence[float]) -> Timing:
        """Summarise `samples`.

        >>> Timing.of([0.5, 0.1, 0.2, 0.3, 0.4])
        Timing(median_seconds=0.3, spread_seconds=0.2, samples=(0.5, 0.1, 0.2, 0.3, 0.4))
        """
        if len(samples) == 1:
            return cls(samples[0], 0.0, tuple(samples))
        low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(middle, high - low, tuple(samples))

    def rates(self, work: float) -> tuple[float, ...]:
        """Return how much of `work` was done per second, by sample.

        >>> Timing.of([0.5, 0.25]).rates(10)
        (20.0, 40.0)
        """
        return tuple(work / seconds for seconds in self.samples)

    def scaled(self, factor: float) -> tuple[float, ...]:
        return tuple(factor * seconds for seconds in self.samples)


def interleave(
    contenders: Mapping[str, Callable[[], object]],
    *,
    repeats: int = 5,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time every contender `repeats` times, in turns, so that a noisy moment of the machine hurts all alike.

    Every second round runs backwards, so that nobody always follows the same neighbour. Garbage is collected before,
    and never during, a measured call. The `warmup` rounds (compilation, caches) are not counted.

    >>> times = interleave({"sum": lambda: sum(range(1000)), "len": lambda: len(range(1000))}, repeats=3)
    >>> {name: len(timing.samples) for name, timing in times.items()}
    {'sum': 3, 'len': 3}
    """
    if repeats < 1:
        raise ArgumentError("at least one repeat is needed", where="repeats", got=repeats)
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for round_number in range(-warmup, repeats):
        order = list(contenders.items())
        for name, call in order if round_number % 2 == 0 else reversed(order):
            seconds = _seconds(call, clock)
            if round_number >= 0:
                samples[name].append(seconds)
    return {name: Timing.of(values) for name, values in samples.items()}


def _seconds(call: Callable[[], object], clock: Callable[[], float]) -> float:
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        start = clock()
        call()
        return clock() - start
    finally:
        if was_enabled:
            gc.enable()


class Benchmark(abc.ABC):
    """Base of all benchmarks: a subclass with a `name`, in a module of this package, registers itself."""

    name: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()  # of its own: fields that `choose` sets
    alone: ClassVar[bool] = False  # runs only if it is named: it is not about speed, or takes long

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.table: dict[str, list[Any]] | None = None  # headings, numbers and rows, to print in place of the rows
        self.tell: Callable[[str], None] = lambda text: None  # says how far it is

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            benchmarks.add(cls.name, cls)

    @abc.abstractmethod
    def run(self, quick: bool) -> list[Row]:
        """Measure and return the rows; with `quick`, on sizes that end within about three minutes."""

    def choose(self, **options: Any) -> None:
        """Set options of this benchmark alone, and check them; None leaves one as it is."""
        for name, value in options.items():
            if value is None:
                continue
            if name not in self.options:
                raise ArgumentError(f"the benchmark {self.name} has no such option", where=f"--{name}", got=value)
            setattr(self, name, value)
        self.check()

    def check(self) -> None:  # noqa: B027 - most have no options
        """Raise `ArgumentError` if an option is out of range; `choose` calls it, before anything starts."""

    def note(self, text: str) -> None:
        """Have a sentence stand below the table: who is missing and why, what explains a missed target."""
        self.notes.append(text)


benchmarks: Registry[Benchmark] = Registry("benchmark", "unskew_lab.bench")


def report(benchmark: str, rows: Sequence[Row]) -> dict[str, object]:
    """Return the object that ``unskew bench NAME --json`` prints, with the commit and the machine it ran on."""
    return {
        "benchmark": benchmark,
        "commit": machine.commit(),
        "machine": machine.describe(),
        "rows": [row.as_dict() for row in rows],
    }
