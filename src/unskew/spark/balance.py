"""``unskew.balance``: the one line that changes in a user's job."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as sql
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError, require_number
from unskew.load.statistics import Statistics
from unskew.operators import Operator
from unskew.operators.durations import microseconds
from unskew.operators.heaviest_keys import HeaviestKeys
from unskew.operators.session_aggregate import SessionAggregate
from unskew.operators.window_aggregate import WindowAggregate
from unskew.planners import PLANNERS, Plan, Planner
from unskew.planners import planner as make_planner
from unskew.routing.table import DEFAULT_SLOTS
from unskew.runtime.memory import memory_budgets
from unskew.runtime.settings import Channels, Keeping, Planning, Settings, Splitting
from unskew.spark.batch import BalancedBatch, BalancedPair
from unskew.spark.check import require_frame
from unskew.spark.columns import Span, grouping
from unskew.spark.grouped import Grouped
from unskew.spark.internals import read_grouped
from unskew.spark.per_key import (
    ArrowSettings,
    Lean,
    LeanFunction,
    PandasFunction,
    PandasProcessor,
    PerKeyFunction,
    Processor,
    RowProcessor,
    handled_parcels,
    initial_parcels,
)
from unskew.spark.per_key.calls import STATE
from unskew.spark.per_key.initial_state import check_initial_state
from unskew.spark.plans import session_cores
from unskew.spark.stage import Stage
from unskew.splitters import Splitter, splitter

AUTO = "auto"
OUTPUT_MODES = ("append", "update")
MOST_SLOTS = 1 << 24  # every record and every task holds the table
OWN_TOLERANCE = 0.02  # batches that are planned by their own counts need little slack: nothing has to be predicted


def balance(
    events: DataFrame,
    key: str | Column | Sequence[str | Column],
    *more: str | Column,
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
        The columns to group by, as Spark's ``groupBy`` takes them: ``"user"`` or ``F.col("user")``. For aggregates you
        may add one ``F.window("ts", "10 minutes")`` or ``F.session_window("ts", "30 minutes")``.
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
    names, span = grouping(events, key, *more)
    cores = session_cores(events.sparkSession)
    require_number("slots", slots, 1, MOST_SLOTS)
    count = _checked_channels(channels, cores, slots)
    chosen, when = _planner(planner, tolerance, plan)
    if events.isStreaming and sample is not None:
        raise ArgumentError("a stream is counted batch by batch", where="sample", got=sample, hint="leave it out")
    if not events.isStreaming:
        _check_static(
            sample,
            span,
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
        raise ArgumentError("time does not run backwards", where="interval", got=interval, hint='"30 seconds"')
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
    return Balanced(events, names, settings, cores, span, sample)


def _check_static(sample: float | None, span: Span | None, **for_streams: object) -> None:
    """Refuse what static rows cannot have."""
    if span is not None:
        raise ArgumentError("windows are for streams, these rows are static", where="events")
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
        raise ArgumentError(f'channels is a whole number from 1 to {slots}, or "auto"', got=channels, where="channels")
    return int(channels)


def _planner(given: str | Planner, tolerance: float | None, plan: str | None) -> tuple[Planner, Any]:
    """Return the planner with its tolerance, and when it plans."""
    if plan not in (None, "own", "ahead"):
        raise ArgumentError('a plan is made from the batch\'s "own" counts, or "ahead"', got=plan, where="plan")
    if tolerance is not None:
        require_number("tolerance", tolerance, whole=False)
        if not 0 <= tolerance < 1:
            what = "a tolerance is a share of the mean load, from 0 to below 1"
            raise ArgumentError(what, got=tolerance, where="tolerance", hint="0.05")
    if not isinstance(given, (str, Planner)):
        raise ArgumentError("this is no planner", got=given, where="planner", hint=f"one of {', '.join(PLANNERS)}")
    kind = PLANNERS[given] if isinstance(given, str) else type(given)
    when = plan or ("own" if kind.for_balance else "ahead")
    if not isinstance(given, str):
        if tolerance is not None:
            raise ArgumentError("this planner has its own tolerance", got=tolerance, where="tolerance")
        return given, when
    if tolerance is None and when == "own" and "tolerance" in inspect.signature(kind).parameters:
        tolerance = OWN_TOLERANCE
    return make_planner(given, **({} if tolerance is None else {"tolerance": tolerance})), when


def _scheme(split: str | Splitter | None) -> Splitter | None:
    """Return the splitting scheme for all rows, if one is wanted."""
    if split is None or split == AUTO:
        return None
    if not isinstance(split, (str, Splitter)):
        raise ArgumentError("this is no splitting scheme", where="split", got=split, hint='"auto", "pkg" or a Splitter')
    if isinstance(split, str):
        split = splitter(split)
    if split.shares_memory or not split.online:
        raise ArgumentError(
            f"{split.name} needs one memory for all tasks, or tuples that are still to come",
            where="split",
            hint="choose auto, pkg, greedy-d, d-choices, w-choices or shuffle",
        )
    return split


@dataclass(frozen=True, eq=False)
class Balanced(Grouped):
    """Rows grouped by key, in place of Spark's `GroupedData`. Its methods say what to do per key.

    As with Spark's class, some methods are for streams and some for static rows; the others say so.
    """

    def window(
        self,
        size: str,
        slide: str | None = None,
        *,
        offset: str = "0 seconds",
        on: str | None = None,
        output_mode: str | None = None,
    ) -> Balanced:
        """Group by windows of event time, too: ``window("10 minutes", slide="5 minutes").aggregate(n="count")``.

        The results are those of ``groupBy(key, window(time, size, slide))`` in the same output mode; see
        `WindowAggregate`. You can also set the mode later, with ``writeStream.outputMode(...)``.
        """
        make = partial(WindowAggregate, size, slide, offset, on)
        spelled = partial(sql.window, windowDuration=size, slideDuration=slide or size, startTime=offset)
        return self._within(Span(make, spelled, on, output_mode=output_mode))

    def session_window(self, gap: str, *, on: str | None = None) -> Balanced:
        """Group by sessions, too: ``session_window("30 minutes").aggregate(n="count")``; see `SessionAggregate`."""
        spelled = partial(sql.session_window, gapDuration=gap)
        return self._within(Span(partial(SessionAggregate, gap, on), spelled, on, has_modes=False))

    def _within(self, span: Span) -> Balanced:
        if self.span is not None:
            raise ArgumentError("the stream is grouped by a window already", hint="leave one out")
        return replace(self, span=span)

    def heavy_hitters(self, k: int = 100, *, capacity: int | None = None) -> Stage:
        """Find the most frequent keys of the whole stream: ``balance(events, "url").heavy_hitters(k=100)``.

        Each batch yields the list so far: ``rank``, the key, ``count``, ``error`` and the ``rows`` of the stream. The
        true count lies between ``count - error`` and ``count``, and no key outside the list has more than the last in
        it. See `HeaviestKeys` for `capacity`, and for more buckets if you have more than 64 channels.
        """
        return self.apply(HeaviestKeys(k, capacity=capacity))

    def applyInPandasWithState(  # noqa: N802
        self,
        func: Callable[..., Any],
        outputStructType: StructType | str,  # noqa: N803
        stateStructType: StructType | str,  # noqa: N803
        outputMode: str,  # noqa: N803
        timeoutConf: str,  # noqa: N803
        *,
        initial_state: DataFrame | None = None,
        max_call_seconds: float | None = None,
    ) -> Stage:
        """Call a function for every key, as Spark's method of this name does: same arguments, same rows out.

        Parameters
        ----------
        func
            ``func(key, frames, state)`` yields frames; `state` is Spark's `GroupState`.
        outputStructType, stateStructType
            Schemas of the output and of the state, as a `StructType` or as a DDL string.
        outputMode
            ``"update"`` or ``"append"``. It says what the rows mean, and does not change them.
        timeoutConf
            ``"NoTimeout"``, ``"ProcessingTimeTimeout"`` or ``"EventTimeTimeout"``.
        initial_state
            The state before the first batch of a new checkpoint: the key columns, a struct ``state`` and perhaps
            ``timeout_ms``. `unskew.spark.per_key.state_of` gives that of a native query.
        max_call_seconds
            How long one call may take. A call that takes longer, because it waits for a service or never ends, stops
            the query with an error that names the key. Defaults to no limit. The limit cannot end compiled code that
            does not return to Python.
        """
        _check_mode(outputMode)
        stage = self._call_per_key(
            PandasFunction, func, outputStructType, stateStructType, timeoutConf, initial_state, max_call_seconds
        )
        return replace(stage, output_mode=outputMode.lower())

    def apply_per_key(
        self,
        func: Lean,
        output_schema: StructType | str,
        state_schema: StructType | str,
        *,
        timeout: str = GroupStateTimeout.NoTimeout,
        initial_state: DataFrame | None = None,
        max_call_seconds: float | None = None,
    ) -> Stage:
        """Call a function for every key with NumPy arrays, which is many times faster than with pandas frames.

        ``func(key, rows, state)`` returns ``(state, output)`` or ``(state, output, deadline_ms)``; see
        `unskew.spark.per_key.LeanFunction`. `timeout` names the time that deadlines are in. The other parameters are
        those of `applyInPandasWithState`.
        """
        return self._call_per_key(
            LeanFunction, func, output_schema, state_schema, timeout, initial_state, max_call_seconds
        )

    def _call_per_key(
        self,
        form: type[PerKeyFunction],
        function: Callable[..., Any],
        output: StructType | str,
        state: StructType | str,
        timeout: str,
        initial_state: DataFrame | None,
        max_call_seconds: float | None,
    ) -> Stage:
        output, state = _struct(output), _struct(state)
        settings = ArrowSettings.of(self.events.sparkSession)
        operator = form(function, output, state, timeout, settings, max_call_seconds)
        if initial_state is not None:
            check_initial_state(initial_state, (*self.key, STATE))
        return replace(self.apply(operator, output), initial_rows=initial_state, initial=initial_parcels)

    def transformWithStateInPandas(  # noqa: N802
        self,
        statefulProcessor: StatefulProcessor,  # noqa: N803
        outputStructType: StructType | str,  # noqa: N803
        outputMode: str,  # noqa: N803
        timeMode: str,  # noqa: N803
        initialState: GroupedData | Balanced | DataFrame | None = None,  # noqa: N803
        eventTimeColumnName: str = "",  # noqa: N803
    ) -> Stage:
        """Run a stateful processor on pandas frames, as Spark's method of this name does: same arguments, same rows.

        Parameters
        ----------
        statefulProcessor
            Spark's `StatefulProcessor`, unchanged. Its ``init`` also runs here, on a copy, to learn the variables.
        outputStructType
            Schema of the output, as a `StructType` or as a DDL string.
        outputMode
            ``"update"`` or ``"append"``. It says what the rows mean, and does not change them.
        timeMode
            ``"None"``, ``"ProcessingTime"`` or ``"EventTime"``: the time of timers. State with a time to live needs
            ``"ProcessingTime"``.
        initialState
            Rows for ``handleInitialState`` before the first batch of a new checkpoint, grouped by as many columns as
            the stream: ``rows.groupBy("user")``. A DataFrame is grouped by the stream's key columns.
        eventTimeColumnName
            The event time of the output, for a stage that follows. A row at or before the watermark is then an error.
        """
        arguments = (outputStructType, outputMode, timeMode, initialState, eventTimeColumnName)
        return self._process(PandasProcessor, statefulProcessor, *arguments)

    def transformWithState(  # noqa: N802
        self,
        statefulProcessor: StatefulProcessor,  # noqa: N803
        outputStructType: StructType | str,  # noqa: N803
        outputMode: str,  # noqa: N803
        timeMode: str,  # noqa: N803
        initialState: GroupedData | Balanced | DataFrame | None = None,  # noqa: N803
        eventTimeColumnName: str = "",  # noqa: N803
    ) -> Stage:
        """Run a stateful processor on rows. The arguments are those of `transformWithStateInPandas`."""
        arguments = (outputStructType, outputMode, timeMode, initialState, eventTimeColumnName)
        return self._process(RowProcessor, statefulProcessor, *arguments)

    def _process(
        self,
        form: type[Processor],
        processor: StatefulProcessor,
        output: StructType | str,
        mode: str,
        time_mode: str,
        initial: GroupedData | Balanced | DataFrame | None,
        event_time: str,
    ) -> Stage:
        _check_mode(mode)
        output = _struct(output)
        operator = form(processor, output, time_mode, ArrowSettings.of(self.events.sparkSession), event_time)
        stage = replace(self.apply(operator, output), output_mode=mode.lower())
        if initial is None:
            return stage
        if isinstance(initial, Balanced):
            rows, key = initial.events, initial.key
        elif isinstance(initial, DataFrame):
            rows, key = initial, self.key
        else:
            rows, key = read_grouped(initial)
        return replace(stage, initial_rows=rows, initial=partial(handled_parcels, key))

    def applyInPandas(self, func: Callable[..., Any], schema: StructType | str) -> DataFrame:  # noqa: N802
        """Call ``func(frame)`` or ``func(key, frame)`` for every key of static rows, as Spark's method does.

        A task holds all rows of its channel in memory; Spark's holds those of one group.
        """
        return self._static.applyInPandas(func, schema)

    def cogroup(self, other: Balanced) -> BalancedPair:
        """Group static rows with others by the same key, for `BalancedPair.applyInPandas`.

        Key columns are matched by position and must have the same types.
        """
        if not isinstance(other, Balanced):
            raise ArgumentError(
                "balanced rows are grouped with balanced rows",
                got=type(other).__name__,
                hint="cogroup(unskew.balance(other, key))",
            )
        return self._static.cogroup(other._static)

    @property
    def statistics(self) -> Statistics:
        """Static rows, counted by key."""
        return self._static.statistics

    @property
    def plan(self) -> Plan:
        """The routing table for static rows, and what it does, in figures."""
        return self._static.plan

    @cached_property
    def _static(self) -> BalancedBatch:
        if self.events.isStreaming:
            raise ArgumentError(
                "this is for static rows, and these stream", hint="applyInPandasWithState, apply_per_key or agg"
            )
        channels, planning = self.settings.channels, self.settings.planning
        return BalancedBatch(
            self.events, self.key, channels.count, channels.slots, planning.planner, planning.tracked_keys, self.sample
        )

    def apply(self, operator: Operator, output_schema: StructType | None = None) -> Stage:
        """Run any operator. Spark's schema of its output follows from Arrow's unless you give one."""
        if self.span is not None:
            raise ArgumentError("windows are for aggregates", got=operator, hint="group by the key alone")
        if not isinstance(operator, Operator):
            raise ArgumentError("this is no operator", got=operator, hint="one of unskew.operators, or your own")
        return self._run(operator, output_schema)


def _check_mode(mode: str) -> None:
    if str(mode).lower() not in OUTPUT_MODES:
        raise ArgumentError("there is no such output mode", got=mode, hint=" or ".join(OUTPUT_MODES))


def _struct(schema: StructType | str) -> StructType:
    return StructType.fromDDL(schema) if isinstance(schema, str) else schema  # type: ignore[return-value]
