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

    Intervals are reached at random: what was asked before never matters. An interval may be read in partitions;
    put together they are the interval, row by row, whatever their number.

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
        """The type of the key column."""
        return pa.int64()

    def names(self, ids: NDArray[np.int64]) -> pa.Array:
        """Return the keys as they stand in the key column."""
        return pa.array(ids)

    def probabilities(self, interval: int = 0) -> NDArray[np.float64] | None:
        """Return the exact probability of ids 0, 1, ... in an interval, or None where it is not known."""
        return None

    def event_times(self, span: Span) -> NDArray[np.int64]:
        """Return microseconds since 1970, evenly spread over the interval."""
        length = self.interval_seconds * 1e6
        return (
            START + round(span.interval * length) + (span.positions() * (length / max(span.rows, 1))).astype(np.int64)
        )

    def values(self, span: Span) -> NDArray[np.float64]:
        """Return the payload."""
        return np.floor(span.uniforms(self.seed, VALUES) * 65_536) / 64

    def extra_columns(self, span: Span) -> Mapping[str, pa.Array]:
        """Return columns beyond the usual four, to stand behind the key."""
        return {}

    @property
    def schema(self) -> pa.Schema:
        """The columns of all record batches."""
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
        """Return the rows of a span."""
        columns = {
            "key": self.names(self.draw(span)),
            **self.extra_columns(span),
            "event_time": pa.array(self.event_times(span), pa.int64()).cast(EVENT_TIME),
            "value": pa.array(self.values(span)),
            "sequence": pa.array(span.sequence()),
        }
        return pa.RecordBatch.from_pydict(columns)


WORKLOADS: Registry[Workload] = Registry("workload", "unskew.workloads", skip=("spark_source",))


def keys_option(default: int) -> int:
    """Return a field for the number of keys: the option is called ``keys``, which as an attribute is the method."""
    number: int = field(default=default, metadata={"option": "keys"})
    return number


@dataclass(frozen=True, kw_only=True)
class Seeded(Workload):
    """A workload that stands on its own.

    Parameters
    ----------
    seed
        Chooses one of many equally likely streams.
    interval_seconds
        Event time between two intervals. Fang et al. and SMALOPS decide every 10 seconds.
    """

    seed: int = 0
    interval_seconds: float = 10.0

    def __post_init__(self) -> None:
        for parameter in fields(self):
            value = getattr(self, parameter.name)
            self.check(parameter.name, value, not isinstance(value, float) or math.isfinite(value), "finite")
        self.check("seed", self.seed, self.seed >= 0, "0 or more")
        self.check("interval_seconds", self.interval_seconds, self.interval_seconds > 0, "above 0")

    def check(self, field: str, value: object, good: bool, expected: str) -> None:
        """Raise `ArgumentError` unless `good`."""
        _check(self.name, field, value, good, expected)


@dataclass(frozen=True, kw_only=True)
class Drift(Workload):
    """A workload that changes which keys another workload is about, from interval to interval.

    Parameters
    ----------
    base
        What drifts. Its seed and its interval length are taken over.
    """

    base: Workload

    def __post_init__(self) -> None:
        self.check("base", self.base.name, self.base.domain is not None, "a workload with a bounded number of keys")

    def check(self, field: str, value: object, good: bool, expected: str) -> None:
        """Raise `ArgumentError` unless `good`."""
        _check(self.name, field, value, good, expected)

    @property
    def seed(self) -> int:
        """The seed of the base."""
        return self.base.seed

    @property
    def interval_seconds(self) -> float:
        """The interval length of the base."""
        return self.base.interval_seconds

    @property
    def domain(self) -> int:
        """The number of ids of the base."""
        assert self.base.domain is not None
        return self.base.domain

    @property
    def key_type(self) -> pa.DataType:
        """The key type of the base."""
        return self.base.key_type

    @property
    def stream(self) -> int:
        """A stream of random numbers that no base below this drift draws from."""
        return self.base.stream + 1 if isinstance(self.base, Drift) else DRIFT

    def names(self, ids: NDArray[np.int64]) -> pa.Array:
        """Return the keys as the base names them."""
        return self.base.names(ids)

    def event_times(self, span: Span) -> NDArray[np.int64]:
        """Return the event times of the base."""
        return self.base.event_times(span)

    def values(self, span: Span) -> NDArray[np.float64]:
        """Return the payload of the base."""
        return self.base.values(span)

    def extra_columns(self, span: Span) -> Mapping[str, pa.Array]:
        """Return the further columns of the base."""
        return self.base.extra_columns(span)


def _check(workload: str, field: str, value: object, good: bool, expected: str) -> None:
    if not good:
        raise ArgumentError(f"{field} must be {expected}", where=f"workload {workload!r}", got=value)


@lru_cache(maxsize=8)
def shuffled(domain: int, seed: int, interval: int = 0, stream: int = DRIFT) -> NDArray[np.int64]:
    """Return the ids 0 .. domain-1 in random order: a stable sort of uniform numbers, so equal for ever."""
    order = np.argsort(uniforms(seed, interval, stream, domain), kind="stable")
    order.flags.writeable = False
    return order
