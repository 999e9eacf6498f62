"""Functions for applyInPandasWithState, after its documentation, Spark's example of sessions and users' articles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd

from native_jobs.case import Case, events, told


def count(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    """Count the rows of a key (the documentation)."""
    (n,) = state.getOption or (0,)
    for frame in frames:
        n += len(frame)
    state.update((n,))
    yield told(key, n, state.exists, state.get)


def mean_and_most(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    """Keep a count, a sum and a maximum; begin anew after ten rows (an article)."""
    n, total, most = state.get if state.exists else (0, 0.0, -1)
    for frame in frames:
        n, total = n + len(frame), total + float(frame["amount"].sum())
        most = max(most, int(frame["amount"].max()))
    if n > 10:
        state.remove()
    else:
        state.update((n, total, most))
    yield told(key, n, total / n, most, state.exists, state.getOption)


def delivered(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    """Collect rows until one says so, as text: Spark itself cannot keep an array here (an article)."""
    so_far = json.loads(state.get[0]) if state.exists else []
    for frame in frames:
        so_far += [[what, int(ms)] for what, ms in zip(frame["what"], frame["ms"], strict=True)]
    if any(what == "return" for what, _ in so_far):
        if state.exists:
            state.remove()
        yield told(key, *so_far)
    else:
        state.update((json.dumps(so_far),))


def sessions(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    """Split words into sessions that end in event time (Spark's example structured_sessionization)."""
    if state.hasTimedOut:
        n, start, end = state.get
        state.remove()
        yield told(key, n, end - start)
        return
    times = [int(ms) for frame in frames for ms in frame["ms"]]
    n, start, end = state.getOption or (0, times[0], times[0])
    n, start, end = n + len(times), min(start, *times), max(end, *times)
    state.update((n, start, end))
    state.setTimeoutTimestamp(max(end, state.getCurrentWatermarkMs()) + 10_000)


def silence(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    """Tell of keys without rows for a while of event time, each twice; some rows set no timeout."""
    (n,) = state.getOption or (0,)
    if state.hasTimedOut:
        if n >= 1_000:
            state.remove()
        else:
            state.update((n + 1_000,))
            state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 5_000)
        yield told(key, "silent", n, state.exists)
        return
    n = n % 1_000 + sum(len(frame) for frame in frames)
    state.update((n,))
    if n % 4:
        state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 30_000)
    yield told(key, n, state.getCurrentWatermarkMs())


def idle(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    """Tell of keys without rows in the next batch; by the clock, a millisecond has passed by then."""
    if state.hasTimedOut:
        told_before = state.get[1]
        if told_before:
            state.remove()
        else:
            state.update((state.get[0], True))
            state.setTimeoutDuration(1)
        yield told(key, "idle", told_before, [len(frame) for frame in frames])
        return
    n, _ = state.getOption or (0, False)
    n += sum(len(frame) for frame in frames)
    state.update((n, False))
    state.setTimeoutDuration(1)
    yield told(key, n)


def patient(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    """Set timeouts that do not come in time; some keys have a timeout without state."""
    (n,) = state.getOption or (0,)
    n += sum(len(frame) for frame in frames)
    if n % 2:
        state.update((n,))
    state.setTimeoutDuration(3_600_000 * (1 + n % 3))
    yield told(key, n, state.exists, state.hasTimedOut)


def by_two(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    """Take a key of two columns, of which one may be null; yield several frames, and an empty one."""
    (n,) = state.getOption or (0,)
    for frame in frames:
        n += len(frame)
        yield pd.DataFrame({"user": [key[0]], "what": [key[1]], "told": [repr((n, sorted(frame["amount"].tolist())))]})
    state.update((n,))
    yield pd.DataFrame()


EVENT = {"time_mode": "EventTimeTimeout", "output_mode": "append", "watermark": "20 seconds"}

CASES = {
    "count, a function": Case(count, time_mode="NoTimeout", state="n long"),
    "mean and most, a function": Case(
        mean_and_most, time_mode="NoTimeout", state="n long, total double, most int", batches=partial(events, 71)
    ),
    "delivered, a function": Case(
        delivered,
        time_mode="NoTimeout",
        output_mode="append",
        state="so_far string",
        batches=partial(events, 72),
    ),
    "sessions, a function": Case(sessions, state="n long, first long, last long", batches=partial(events, 73), **EVENT),
    "silence, a function": Case(silence, state="n long", batches=partial(events, 74), **EVENT),
    "idle, a function": Case(
        idle, time_mode="ProcessingTimeTimeout", state="n long, told boolean", batches=partial(events, 75, 4, 12, 9)
    ),
    "patient, a function": Case(
        patient, time_mode="ProcessingTimeTimeout", state="n long", batches=partial(events, 76)
    ),
    "two keys, a function": Case(
        by_two,
        "user string, what string, told string",
        time_mode="NoTimeout",
        key=("user", "what"),
        state="n long",
        batches=partial(events, 77, 4, 30, 4, True),
    ),
}
