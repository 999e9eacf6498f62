"""``unskew.balance``: the one line that changes in a user's job."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pyspark.sql import Column, DataFrame

from unskew.errors import ArgumentError, require_number
from unskew.operators.durations import microseconds
from unskew.planners import PLANNERS, Planner
from unskew.planners import planner as make_planner
from unskew.routing.table import DEFAULT_SLOTS, MOST_SLOTS
from unskew.runtime.memory import memory_budgets
from unskew.runtime.settings import Channels, Keeping, Planning, Settings, Splitting
from unskew.spark.balanced import Balanced
from unskew.spark.check import require_frame
from unskew.spark.columns import grouping
from unskew.spark.plans import session_cores
from unskew.splitters import Splitter, splitter

AUTO = "auto"
OWN_TOLERANCE = 0.02  # batches that are planned by their own counts need little slack: nothing has to be predicted


def balance(
    events: DataFrame,
    key: str | Column | int | Sequence[str | Column | int] = (),
    *more: str | Column | int,
    channels: int | Literal["auto"] | None = None,
    planner: str | Planner = "mixed",
    tolerance: float | None = None,
    plan: Literal["own", "ahead"] | None = None,
    interval: int | str = 1,
    window: int = 1,
    split: str | Splitter | None = None,
    tracked_keys: int | None = 2000,
    max_move_bytes: int = 64 << 20,
    min_gain: float = 0.01,
    slots: int = DEFAULT_SLOTS,
    cache_bytes: int = 1 << 30,
    memory_bytes: int | Sequence[int] | None = None,
    records: int = 10,
    sample: float | None = None,
) -> Balanced:
    """Group a stream by a key, as ``events.groupBy(key)`` does, and keep the work balanced while it runs.

    Every key has one owner among the channels. Each batch is counted before it is routed, and planned by its own
    counts. State that has to move travels with the rows. The results are those of Spark alone.

    Static rows work, too: they are counted and planned once. Options for streams are refused for them.

    Parameters
    ----------
    events
        A DataFrame, streaming or static.
    key, more
        What to group by, as Spark's ``groupBy`` takes it: names in any case (``spark.sql.caseSensitive`` says whether
        case counts), columns and expressions such as ``F.lower("user")``, several of them, a list, or nothing for one
        group. For aggregates of a stream you may add one ``F.window("ts", "10 minutes")`` or
        ``F.session_window("ts", "30 minutes")``. Static rows may be grouped by windows and maps like by any other key.
    channels
        The number of parts that keys are shared out to. It is like the number of shuffle partitions of a native job,
        but a small batch runs several channels in one task. Defaults to the session's cores (its default parallelism).
        ``"auto"`` starts there and follows the load, see `unskew.runtime.scaling.Scaling`. A query that continues from
        its checkpoint keeps its number of channels.
    planner
        Decides which channel owns which key: a name (``unskew planners`` lists them) or a `Planner`.
    tolerance
        How far a channel's load may exceed the mean, such as 0.05. Defaults to 0.02 for batches that are planned by
        their own counts, and to the planner's own default for batches that are planned ahead.
    plan
        ``"own"`` counts every batch and plans it by its own counts, where that can pay. ``"ahead"`` plans by what came
        before, as the papers do. Defaults to ``"own"``, with two exceptions: planners that go by busy and idle time
        plan ahead, and aggregates that Spark can combine reach their channels as one row per key and need no plan.
    interval, window
        For ``plan="ahead"``: how much history a plan uses. An interval is a number of batches, or a time such as
        ``"30 seconds"``; a window is the number of intervals that are added up.
    split
        For operators that can merge partial states, such as aggregates. With ``"auto"``, all channels share the keys
        that no channel can carry alone, as long as they are that hot; all other keys have an owner. With a splitting
        scheme (``"pkg"``, ``"greedy-d"``, ``"d-choices"``, ``"w-choices"``, ``"shuffle"``, or a `Splitter`), all rows
        go to workers by that scheme, which send partial states to the owners; the planner is not used. The candidates
        of a key are drawn as in the paper, so two may coincide; ``splitter("pkg", distinct=True)`` keeps them apart.
    tracked_keys
        How many keys each partition and channel counts one by one, at most. The rest is counted by slot. None counts
        all keys one by one.
    max_move_bytes
        How much state may move in one batch.
    min_gain
        A plan is carried out only if it makes the fullest channel lighter by this share of the mean. Below 0, every
        batch is planned, even a small one.
    slots
        Slots of the routing table, fixed for the life of a checkpoint.
    cache_bytes
        Budget for the local copies of state on each machine.
    memory_bytes
        How much state each channel may hold in its local copy: one number for all channels, or one for each. What was
        changed least recently is read from the checkpoint when a row needs it. The planners ``flux-memory`` and
        ``flux-hybrid`` move slots away from channels that have too little. See also `BalancedQuery.limit_memory`.
    records
        How many batches keep their records and state in the checkpoint.
    sample
        For static rows: the share of rows that statistics are taken from, such as 0.05. Defaults to all rows.
    """
    require_frame(events, "events")
    groups = grouping(events, [*(key if isinstance(key, (list, tuple, set)) else [key]), *more])
    cores = session_cores(events.sparkSession)
    require_number("slots", slots, 1, MOST_SLOTS)
    count = _checked_channels(channels, cores, slots)
    chosen, when = _planner(planner, tolerance, plan)
    if events.isStreaming and sample is not None:
        raise ArgumentError(
            "`sample` is for static rows, and this is a stream", where="sample", got=sample, hint="leave it out"
        )
    if not events.isStreaming:
        _check_static(
            sample,
            channels=channels if channels == AUTO else None,
            plan=plan,
            interval=interval,
            window=window,
            split=split,
            max_move_bytes=max_move_bytes,
            min_gain=min_gain,
            cache_bytes=cache_bytes,
            memory_bytes=memory_bytes,
            records=records,
        )
    batches, pause_ms = (1, microseconds(interval) // 1000) if isinstance(interval, str) else (interval, 0)
    if pause_ms < 0:
        raise ArgumentError("an interval must not be negative", where="interval", got=interval, hint='"30 seconds"')
    for what, number, least in (
        ("interval", batches, 1),
        ("window", window, 1),
        ("records", records, 1),
        ("max_move_bytes", max_move_bytes, 0),
        ("cache_bytes", cache_bytes, 0),
        ("tracked_keys", 1 if tracked_keys is None else tracked_keys, 1),
    ):
        require_number(what, number, least)
    require_number("min_gain", min_gain, whole=False)
    settings = Settings(
        Channels(count, channels == AUTO, slots),
        Planning(chosen, when, batches, pause_ms, window, max_move_bytes, min_gain, tracked_keys, presum=plan is None),
        Splitting(split == AUTO, _scheme(split)),
        Keeping(cache_bytes, memory_budgets(memory_bytes), records),
    )
    return Balanced(groups.rows, groups.key, groups.given, groups.hidden, settings, cores, groups.span, sample)


def _check_static(sample: float | None, **for_streams: object) -> None:
    """Refuse what static rows cannot have."""
    if sample is not None:
        require_number("sample", sample, whole=False)
        if not 0 < sample <= 1:
            raise ArgumentError("a sample is a share above 0 and up to 1", where="sample", got=sample)
    defaults = inspect.signature(balance).parameters
    for name, value in for_streams.items():
        if value != defaults[name].default:
            raise ArgumentError(
                "this option is for streams, these rows are static", where=name, got=value, hint="leave it out"
            )


def _checked_channels(channels: int | str | None, cores: int, slots: int) -> int:
    if channels is None or channels == AUTO:
        return min(cores, slots)
    if isinstance(channels, bool) or not isinstance(channels, (int, np.integer)) or not 1 <= channels <= slots:
        raise ArgumentError(
            f'channels must be a whole number from 1 to {slots}, or "auto"', got=channels, where="channels"
        )
    return int(channels)


def _planner(given: str | Planner, tolerance: float | None, plan: str | None) -> tuple[Planner, Any]:
    """Return the planner with its tolerance, and when it plans."""
    if plan not in (None, "own", "ahead"):
        raise ArgumentError('plan must be "own" or "ahead"', got=plan, where="plan")
    if tolerance is not None:
        require_number("tolerance", tolerance, whole=False)
        if not 0 <= tolerance < 1:
            what = "a tolerance is a share of the mean load, from 0 to below 1"
            raise ArgumentError(what, got=tolerance, where="tolerance", hint="0.05")
    if not isinstance(given, (str, Planner)):
        raise ArgumentError("this is not a planner", got=given, where="planner", hint=f"one of {', '.join(PLANNERS)}")
    kind = PLANNERS[given] if isinstance(given, str) else type(given)
    when = plan or ("own" if kind.for_balance else "ahead")
    if not isinstance(given, str):
        if tolerance is not None:
            raise ArgumentError(
                "tolerance works only with the name of a planner",
                got=tolerance,
                where="tolerance",
                hint="give it to the planner",
            )
        return given, when
    if tolerance is None and when == "own" and "tolerance" in inspect.signature(kind).parameters:
        tolerance = OWN_TOLERANCE
    return make_planner(given, **({} if tolerance is None else {"tolerance": tolerance})), when


def _scheme(split: str | Splitter | None) -> Splitter | None:
    """Return the splitting scheme for all rows, if one is wanted."""
    if split is None or split == AUTO:
        return None
    if not isinstance(split, (str, Splitter)):
        raise ArgumentError(
            "this is not a splitting scheme", where="split", got=split, hint='"auto", "pkg" or a Splitter'
        )
    if isinstance(split, str):
        split = splitter(split)
    if split.shares_memory or not split.online:
        raise ArgumentError(
            f"a query cannot use {split.name}: tasks would have to share memory, or know tuples that are yet to come",
            where="split",
            hint="choose auto, pkg, greedy-d, d-choices, w-choices or shuffle",
        )
    return split
