"""A user's function as Spark calls it behind our shuffle, where keys and rows also hold the channel."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError
from unskew.versions.hints import takes_iterator


@dataclass(frozen=True)
class Form:
    """How a function gets the rows of a group: as pandas or Arrow, whole or in pieces, of one or of two inputs."""

    method: str  # of Spark's `GroupedData`: applyInPandas or applyInArrow
    inputs: int

    def on(self, groups: Any, function: Callable[..., Any], schema: StructType | str) -> DataFrame:
        """Return what Spark's own method gives."""
        if not callable(function):
            raise ArgumentError("this is not a function", got=function)
        made: DataFrame = getattr(groups, self.method)(function, schema)
        return made

    def without(self, hidden: tuple[tuple[str, ...], ...], function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the same form that hides columns of each input, and the first part of the key.

        Spark has accepted the function before.
        """
        takes_key = len(inspect.getfullargspec(function).args) > self.inputs
        call = _Call(function, takes_key)
        if self.inputs == 2:
            return _of_two(call, self._cutters(hidden))
        (cut,) = self._cutters(hidden)
        if takes_iterator(self.method, function):
            return (_of_frames if self.method == "applyInPandas" else _of_batches)(call, cut)
        return _of_one(call, cut)

    def _cutters(self, hidden: tuple[tuple[str, ...], ...]) -> list[_Cut]:
        kind = _CutFrame if self.method == "applyInPandas" else _CutTable
        return [kind(names) for names in hidden]


class _Cut:
    """Takes columns out of the rows of a group."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = list(names)

    def __call__(self, rows: Any) -> Any:
        raise NotImplementedError


class _CutFrame(_Cut):
    def __call__(self, rows: Any) -> Any:
        for name in self.names:  # in place, which is cheap; the frame is ours
            del rows[name]
        return rows


class _CutTable(_Cut):
    def __call__(self, rows: Any) -> Any:
        return rows.drop_columns(self.names)


@dataclass(frozen=True)
class _Call:
    function: Callable[..., Any]
    takes_key: bool

    def __call__(self, key: tuple[Any, ...], *rows: Any) -> Any:
        """Call the function without the channel, which comes first in the key. Name the key in what it raises."""
        key = key[1:]
        try:
            result = self.function(key, *rows) if self.takes_key else self.function(*rows)
        except Exception as error:
            error.add_note(_named(key))
            raise
        return _naming(result, key) if inspect.isgenerator(result) else result


def _naming(result: Iterator[Any], key: tuple[Any, ...]) -> Iterator[Any]:
    try:
        yield from result
    except Exception as error:
        error.add_note(_named(key))
        raise


def _named(key: tuple[Any, ...]) -> str:
    return f"in the call for key {key}"


# Spark reads the form from the number of arguments and from the hints.


def _of_one(call: _Call, cut: _Cut) -> Callable[..., Any]:
    return lambda key, rows: call(key, cut(rows))


def _of_two(call: _Call, cuts: list[_Cut]) -> Callable[..., Any]:
    return lambda key, left, right: call(key, cuts[0](left), cuts[1](right))


def _of_frames(call: _Call, cut: _Cut) -> Callable[..., Any]:
    def pieces(key: tuple[Any, ...], rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        return call(key, map(cut, rows))  # type: ignore[no-any-return]

    return pieces


def _of_batches(call: _Call, cut: _Cut) -> Callable[..., Any]:
    def pieces(key: tuple[Any, ...], rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return call(key, map(cut, rows))  # type: ignore[no-any-return]

    return pieces
