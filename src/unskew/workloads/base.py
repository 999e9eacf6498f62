"""The contract of a workload: a frozen, seeded value that yields the rows of any interval."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.registry import Registry
from unskew.workloads.span import DRIFT, VALUES, Span, uniforms

START = 1_704_067_200_000_000  # event time of interval 0: 2024-01-01 00:00 UTC, in microseconds
EVENT_TIME = pa.timestamp("us", tz="UTC")


class Workload(ABC):
    """A stream of keyed rows, cut into intervals, the same on every machine and in every process.

    You may ask for intervals in any order. An interval may be read in partitions; put together they are the interval,
    row by row, whatever their number.

    Rows have the columns ``key`` (int64 or string), ``event_time`` (ascending), ``value`` (multiples of 1/64 below
    1024, so that float sums are exact in any order) and ``sequence`` (the row's place in the stream).

    A new workload is one file with one frozen dataclass that names itself, ``class Zipf(Seeded, name="zipf")``,
    and says what it draws.
    """

    name: ClassVar[str] = ""

    def __init_subclass__(cls, name: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.name = name
        if name:
            WORKLOADS.add(name, cls)

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            self.check(each.name, not isinstance(value, float) or math.isfinite(value), "finite")
            for expected, good in _bounds(value, **each.metadata.get("bounds", {})):
                self.check(each.name, good, expected, each.metadata["option"])

    def check(self, field: str, good: bool, expected: str, option: str | None = None) -> None:
        if not good:
            where, got = f"workload {self.name!r}", getattr(self, field)
            raise ArgumentError(f"{option or field} must be {expected}", where=where, got=got)

    @classmethod
    def summary(cls) -> str:
        """Return what it is, in one line."""
        return (cls.__doc__ or "").partition("\n")[0].replace("``", "")

    @property
    @abstractmethod
    def seed(self) -> int:
        """Chooses one of many equally likely streams; not negative."""

    @property
    @abstractmethod
    def interval_seconds(self) -> float:
        """Event time between the first rows of two consecutive intervals."""

    @abstractmethod
    def draw(self, span: Span) -> NDArray[np.int64]:
        """Return the ids of the keys of a span's rows."""

    @property
    def domain(self) -> int | None:
        """How many ids there are, or None when they have no bound."""
        return None

    @property
    def key_type(self) -> pa.DataType:
        return pa.int64()

    def names(self, ids: NDArray[np.int64]) -> pa.Array:
        """Return the keys as they appear in the key column."""
        return pa.array(ids)

    def probabilities(self, interval: int = 0) -> NDArray[np.float64] | None:
        """Return the exact probability of ids 0, 1, ... in an interval, or None where it is not known."""
        return None

    def event_times(self, span: Span) -> NDArray[np.int64]:
        """Return microseconds since 1970, evenly spread over the interval."""
        length = self.interval_seconds * 1e6
        within = (span.positions() * (length / max(span.rows, 1))).astype(np.int64)
        return START + round(span.interval * length) + within

    def values(self, span: Span) -> NDArray[np.float64]:
        return np.floor(span.uniforms(self.seed, VALUES) * 65_536) / 64

    def extra_columns(self, span: Span) -> Mapping[str, pa.Array]:
        """Return columns beyond the usual four; they follow the key."""
        return {}

    @property
    def schema(self) -> pa.Schema:
        extra = [(name, column.type) for name, column in self.extra_columns(Span(0, 0, 0, 0)).items()]
        usual = [("event_time", EVENT_TIME), ("value", pa.float64()), ("sequence", pa.int64())]
        return pa.schema([("key", self.key_type), *extra, *usual])

    def keys(self, interval: int, n: int, partition: int = 0, partitions: int = 1) -> NDArray[np.int64]:
        """Return the key ids of an interval of `n` rows, or of one of its partitions."""
        return self.draw(Span.partition(interval, n, partition, partitions))

    def rows(self, interval: int, n: int, partition: int = 0, partitions: int = 1) -> pa.RecordBatch:
        """Return an interval of `n` rows, or one of its partitions."""
        return self.batch(Span.partition(interval, n, partition, partitions))

    def batch(self, span: Span) -> pa.RecordBatch:
        columns = {
            "key": self.names(self.draw(span)),
            **self.extra_columns(span),
            "event_time": pa.array(self.event_times(span), pa.int64()).cast(EVENT_TIME),
            "value": pa.array(self.values(span)),
            "sequence": pa.array(span.sequence()),
        }
        return pa.RecordBatch.from_pydict(columns)


WORKLOADS: Registry[Workload] = Registry("workload", "unskew.workloads", skip=("spark_source",))


def option(default: float, name: str | None = None, **bounds: float) -> Any:
    """Return a field with bounds: `at_least`, `above`, `at_most`, `below`. Users may know it by another `name`."""
    return field(default=default, metadata={"option": name, "bounds": bounds})


def keys_option(default: int, **bounds: float) -> Any:
    """Return a field for the number of keys. Its option is ``keys``; the attribute ``keys`` is a method."""
    return option(default, "keys", **(bounds or {"above": 0}))


def exponent_option(default: float) -> Any:
    """Return a field for the exponent of a power law."""
    return option(default, at_least=0, below=100)


@dataclass(frozen=True, kw_only=True)
class Seeded(Workload):
    """A workload that does not change another one. Fang et al. and SMALOPS decide every 10 seconds."""

    seed: int = option(0, at_least=0)
    interval_seconds: float = option(10.0, above=0)


class Keyed(Seeded):
    """A workload with a fixed number of keys; its dataclass declares the field `key_count`."""

    key_count: int

    @property
    def domain(self) -> int:
        return self.key_count


@dataclass(frozen=True, kw_only=True)
class Drift(Workload):
    """A workload that changes which keys another workload, its `base`, is about, from interval to interval."""

    base: Workload

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("base", self.base.domain is not None, "a workload with a bounded number of keys")

    @property
    def seed(self) -> int:
        return self.base.seed

    @property
    def interval_seconds(self) -> float:
        return self.base.interval_seconds

    @property
    def domain(self) -> int:
        assert self.base.domain is not None
        return self.base.domain

    @property
    def key_type(self) -> pa.DataType:
        return self.base.key_type

    @property
    def stream(self) -> int:
        """A stream of random numbers that no base below this drift draws from."""
        return self.base.stream + 1 if isinstance(self.base, Drift) else DRIFT

    def names(self, ids: NDArray[np.int64]) -> pa.Array:
        return self.base.names(ids)

    def event_times(self, span: Span) -> NDArray[np.int64]:
        return self.base.event_times(span)

    def values(self, span: Span) -> NDArray[np.float64]:
        return self.base.values(span)

    def extra_columns(self, span: Span) -> Mapping[str, pa.Array]:
        return self.base.extra_columns(span)


def _bounds(value: float, **bounds: float) -> list[tuple[str, bool]]:
    tests = {
        "at_least": lambda bound: (f"{bound:,} or more", value >= bound),
        "above": lambda bound: (f"above {bound:,}", value > bound),
        "at_most": lambda bound: (f"at most {bound:,}", value <= bound),
        "below": lambda bound: (f"below {bound:,}", value < bound),
    }
    return [tests[name](bound) for name, bound in bounds.items()]


@lru_cache(maxsize=8)
def shuffled(domain: int, seed: int, interval: int = 0, stream: int = DRIFT) -> NDArray[np.int64]:
    """Return the ids 0 .. domain-1 in random order. A stable sort of uniform numbers gives the same order for ever."""
    order = np.argsort(uniforms(seed, interval, stream, domain), kind="stable")
    order.flags.writeable = False
    return order
