"""The columns that a stream is grouped by, as Spark's ``groupBy`` takes them: keys, and perhaps a window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame

from unskew.errors import ArgumentError, ColumnError
from unskew.hashing import check_key_type
from unskew.operators import Operator
from unskew.operators.session_aggregate import SessionAggregate
from unskew.operators.window_aggregate import WindowAggregate
from unskew.spark.internals import Call, read_call, read_selected

WATERMARK_MARK = "spark.watermarkDelayMs"


@dataclass(frozen=True)
class Span:
    """A window of event time among the columns that a stream is grouped by.

    Parameters
    ----------
    make
        Makes the operator: ``make(output_mode=..., aggregates=...)``.
    spelled
        Returns the window on a column as Spark spells it.
    on
        The column of times; None: the one with the watermark.
    place
        Where it stands among the keys; None: behind them.
    output_mode
        What its rows mean; None: what ``writeStream.outputMode`` says, and where it says nothing ``"append"``.
    has_modes
        Whether there is more than one; else `make` takes none.
    """

    make: Callable[..., Any]
    spelled: Callable[[str], Column]
    on: str | None = None
    place: int | None = None
    output_mode: str | None = None
    has_modes: bool = True

    def operator(self, aggregates: dict[str, str], mode: str | None) -> Operator:
        """Return the operator in a mode."""
        modes = {"output_mode": mode or "append"} if self.has_modes else {}
        made = self.make(aggregates=aggregates, **modes)
        return made if self.place is None else made.placed(self.place)  # type: ignore[no-any-return]


def grouping(events: DataFrame, given: Sequence[str | Column]) -> tuple[tuple[str, ...], Span | None]:
    """Return the key columns, and the window if there is one."""
    names: list[str] = []
    span = None
    for each in given:
        if isinstance(each, str):
            names.append(each)
            continue
        call = read_call(events.sparkSession, each)
        if call is not None and call.function in ("window", "session_window"):
            if span is not None:
                raise ArgumentError("there may be one window", got=str(each), hint="leave one out")
            span = _span(events, each, call, len(names))
        else:
            names.append(_name(events, each))
    for name in names:
        if name not in events.columns:
            raise ColumnError("there is no column of that name", got=name, hint=f"one of {', '.join(events.columns)}")
        check_key_type(name, events.schema[name].dataType.simpleString())
    if not names:
        raise ArgumentError("a stream is balanced by a key", got=list(given), hint="name a key beside the window")
    if span is not None and span.place == len(names):
        span = replace(span, place=None)
    return tuple(names), span


def _name(events: DataFrame, column: Column) -> str:
    read = read_selected(events, column)
    if read is None or read[1] is None:
        raise ArgumentError(
            "a key is a column of the stream",
            got=str(column),
            hint="add it to the stream with withColumn, and name the new column here",
        )
    return read[1]


def _span(events: DataFrame, column: Column, call: Call, place: int) -> Span:
    time, *rest = call.arguments
    durations = [each.literal for each in rest if each.literal is not None]
    if call.clause or not durations or len(durations) < len(rest):
        raise ArgumentError(
            "a window is on a column of times and has fixed durations",
            got=str(column),
            hint='F.window("ts", "5 minutes") or F.session_window("ts", "5 minutes")',
        )
    on, size = _name(events, time.column), durations[0]
    if call.function == "session_window":
        return Span(partial(SessionAggregate, size, on), lambda _: column, on, place, has_modes=False)
    slide, offset = (*durations[1:], *(size, "0 seconds")[len(durations) - 1 :])
    return Span(partial(WindowAggregate, size, slide, offset, on), lambda _: column, on, place)
