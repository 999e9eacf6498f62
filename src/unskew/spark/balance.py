"""``unskew.balance``: the one line that changes in a user's job."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError, ColumnError
from unskew.operators import Operator
from unskew.operators.durations import microseconds
from unskew.operators.heaviest_keys import HeaviestKeys
from unskew.operators.presum import quoted
from unskew.operators.session_aggregate import SessionAggregate
from unskew.operators.window_aggregate import WindowAggregate
from unskew.planners import PLANNERS, Planner
from unskew.planners import planner as make_planner
from unskew.routing.table import DEFAULT_SLOTS
from unskew.runtime.memory import memory_budgets
from unskew.runtime.settings import Channels, Keeping, Planning, Settings, Splitting
from unskew.spark.batch import BalancedBatch
from unskew.spark.columns import spark_types
from unskew.spark.grouped import Grouped
from unskew.spark.grouping import Span, grouping
from unskew.spark.inputs import arrow_schema
from unskew.spark.per_key import ArrowSettings, Lean, LeanFunction, PandasFunction, PerKeyFunction
from unskew.spark.plans import has_shuffle, session_cores
from unskew.spark.stage import Stage
from unskew.splitters import Splitter, splitter

GIBIBYTE = 1 << 30

AUTO = "auto"

OUTPUT_MODES = ("append", "update")

OWN_TOLERANCE = 0.02
"""Overload allowed where a batch is planned by its own counts: nothing has to be predicted, so little is left over."""


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
    cache_bytes: int = GIBIBYTE,
    memory_bytes: int | Sequence[int] | None = None,
    records: int = 10,
    sample: float | None = None,
) -> BalancedStream:
    """Group a stream by a key, as ``events.groupBy(key)`` does, and keep the work balanced while it runs.

    Every key has one owner among the channels. A batch is counted before it is routed, and planned by its own counts;
    state that has to move travels with the rows. The results are those of Spark alone.

    Parameters
    ----------
    events
        A streaming DataFrame. A static DataFrame gives a `unskew.spark.batch.BalancedBatch`, which plans once.
    key, more
        The columns to group by, as Spark's ``groupBy`` takes them: key columns, ``"user"`` or ``F.col("user")``, and
        for aggregates perhaps one ``F.window("ts", "10 minutes")`` or ``F.session_window("ts", "30 minutes")``.
    channels
        Parts that keys are shared out to; like the number of shuffle partitions of a native job, but a small batch runs
        several of them in one task. Defaults to the session's cores (its default parallelism). ``"auto"`` begins with
        as many and follows the load, see `unskew.runtime.scaling.Scaling`. A query that continues from its checkpoint
        goes on with as many as it had.
    planner
        Who decides which channel owns which key: a name (``unskew planners`` lists them) or a `Planner`.
    tolerance
        Overload allowed over the mean, such as 0.05. Defaults to 0.02 for batches that are planned by their own counts,
        and to the planner's own default for those that are planned ahead.
    plan
        ``"own"`` counts every batch and plans it by its own counts, where that can pay. ``"ahead"`` plans by what came
        before, as the papers do. Defaults to ``"own"``, except for planners that go by busy and idle time, and for
        aggregates that Spark can add up by itself: these reach their channels as one row per key and need no plan.
    interval, window
        For ``plan="ahead"``: how much a plan goes by. An interval is a number of batches, or a time such as
        ``"30 seconds"``; a window is the number of intervals that are added up.
    split
        For operators that can merge partial states, such as aggregates. ``"auto"``: keys that no channel can carry
        alone are shared by all channels, as long as they are so hot; all others have an owner. A splitting scheme
        (``"pkg"``, ``"greedy-d"``, ``"d-choices"``, ``"w-choices"``, ``"shuffle"``, or a `Splitter`): all rows go to
        workers by that scheme, which send partial states to the owners; the planner is not asked. Candidates of a key
        are drawn as in the paper, so two of them may coincide; ``splitter("pkg", distinct=True)`` keeps them apart.
    tracked_keys
        Keys that are counted one by one, at most, by each partition and channel; the rest is counted by slot. None
        counts all one by one.
    max_move_bytes
        State that may move in one batch.
    min_gain
        A plan is carried out only if it makes the fullest channel lighter by this share of the mean. Below 0 every
        batch is planned, small ones too.
    slots
        Slots of the routing table; fixed for the life of a checkpoint.
    cache_bytes
        Budget of each machine's local copies of state.
    memory_bytes
        State that each channel may hold in its local copy: one number for all, or one for each. What was changed least
        recently is read from the checkpoint when a row needs it; planners ``flux-memory`` and ``flux-hybrid`` move
        slots away from channels that have too little. See also `BalancedQuery.limit_memory`.
    records
        Batches whose records, and state, are retained in the checkpoint.
    sample
        For static rows: the share of them that statistics are taken from, such as 0.05; all where not given.
    """
    if not isinstance(events, DataFrame):
        raise ArgumentError(
            "this is not a Spark DataFrame",
            where="events",
            got=type(events).__name__,
            hint="spark.createDataFrame(...)",
        )
    names, span = grouping(events, [*([key] if isinstance(key, (str, Column)) else key), *more])
    cores = session_cores(events.sparkSession)
    count = _checked_channels(channels, cores, slots)
    chosen, when = _planner(planner, tolerance, plan)
    if not events.isStreaming:
        if span is not None:
            raise ArgumentError("windows are for streams, these rows are static", where="events")
        return BalancedBatch(events, names, count, slots, chosen, tracked_keys, sample)  # type: ignore[return-value]
    if sample is not None:
        raise ArgumentError("a stream is counted batch by batch", where="sample", got=sample, hint="leave it out")
    batches, pause_ms = (interval, 0) if isinstance(interval, int) else (1, microseconds(interval) // 1000)
    for what, number in (("interval", batches), ("window", window), ("records", records)):
        if number < 1:
            raise ArgumentError("this is at least 1", where=what, got=number)
    settings = Settings(
        Channels(count, channels == AUTO, slots),
        Planning(chosen, when, batches, pause_ms, window, max_move_bytes, min_gain, tracked_keys, presum=plan is None),
        Splitting(split == AUTO, _scheme(split)),
        Keeping(cache_bytes, memory_budgets(memory_bytes), records),
    )
    return BalancedStream(events, names, settings, cores, span)


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
    if tolerance is not None and not 0 <= tolerance < 1:
        raise ArgumentError(
            "a tolerance is a share of the mean load, from 0 to below 1", got=tolerance, where="tolerance", hint="0.05"
        )
    by_name = PLANNERS[given] if isinstance(given, str) else type(given)
    when = plan or ("own" if by_name.for_balance else "ahead")
    if not isinstance(given, str):
        if tolerance is not None:
            raise ArgumentError("this planner has its own tolerance", got=tolerance, where="tolerance")
        return given, when
    parameters = {} if tolerance is None else {"tolerance": tolerance}
    if tolerance is None and when == "own" and "tolerance" in inspect.signature(by_name).parameters:
        parameters = {"tolerance": OWN_TOLERANCE}
    return make_planner(given, **parameters), when


@dataclass(frozen=True, eq=False)
class BalancedStream(Grouped):
    """A stream grouped by key, in place of Spark's `GroupedData`: say what shall be done per key."""

    def window(
        self,
        size: str,
        slide: str | None = None,
        *,
        offset: str = "0 seconds",
        on: str | None = None,
        output_mode: str | None = None,
    ) -> BalancedStream:
        """Group by windows of event time too: ``window("10 minutes", slide="5 minutes").aggregate(n="count")``.

        Says what ``groupBy(key, window(time, size, slide))`` says in the same output mode; see `WindowAggregate`. The
        mode may also be said later, with ``writeStream.outputMode(...)``.
        """
        make = partial(WindowAggregate, size, slide, offset, on)
        spelled = partial(sql.window, windowDuration=size, slideDuration=slide or size, startTime=offset)
        return self._within(Span(make, spelled, on, output_mode=output_mode))

    def session_window(self, gap: str, *, on: str | None = None) -> BalancedStream:
        """Group by sessions too: ``session_window("30 minutes").aggregate(n="count")``; see `SessionAggregate`."""
        spelled = partial(sql.session_window, gapDuration=gap)
        return self._within(Span(partial(SessionAggregate, gap, on), spelled, on, has_modes=False))

    def _within(self, span: Span) -> BalancedStream:
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
    ) -> Stage:
        """Call a function for every key, as Spark's method of this name does: same arguments, same rows out.

        Parameters
        ----------
        func
            ``func(key, frames, state)`` yields frames; `state` is Spark's `GroupState`.
        outputStructType, stateStructType
            Schemas of the output and of the state, as a `StructType` or in words.
        outputMode
            ``"update"`` or ``"append"``; says what the output means, the rows are the same.
        timeoutConf
            ``"NoTimeout"``, ``"ProcessingTimeTimeout"`` or ``"EventTimeTimeout"``.
        initial_state
            What is known before the first batch of a new checkpoint: the key columns, a struct ``state`` and perhaps
            ``timeout_ms``. `unskew.spark.per_key.state_of` gives that of a native query.
        """
        if outputMode.lower() not in OUTPUT_MODES:
            raise ArgumentError("there is no such output mode", got=outputMode, hint=f"one of {OUTPUT_MODES}")
        stage = self._call_per_key(PandasFunction, func, outputStructType, stateStructType, timeoutConf, initial_state)
        return replace(stage, output_mode=outputMode.lower())

    def apply_per_key(
        self,
        func: Lean,
        output_schema: StructType | str,
        state_schema: StructType | str,
        *,
        timeout: str = GroupStateTimeout.NoTimeout,
        initial_state: DataFrame | None = None,
    ) -> Stage:
        """Call a function for every key with NumPy arrays, which is many times faster than with pandas frames.

        Parameters
        ----------
        func
            ``func(key, rows, state)`` returns ``(state, output)`` or ``(state, output, deadline_ms)``; see
            `unskew.spark.per_key.LeanFunction`.
        output_schema, state_schema
            Schemas of the output and of the state, as a `StructType` or in words.
        timeout
            ``"NoTimeout"``, ``"ProcessingTimeTimeout"`` or ``"EventTimeTimeout"``: the time that deadlines are in.
        initial_state
            As for `applyInPandasWithState`.
        """
        return self._call_per_key(LeanFunction, func, output_schema, state_schema, timeout, initial_state)

    def _call_per_key(
        self,
        form: type[PerKeyFunction],
        function: Callable[..., Any],
        output: StructType | str,
        state: StructType | str,
        timeout: str,
        initial_state: DataFrame | None,
    ) -> Stage:
        spark = self.events.sparkSession
        output, state = _struct(output), _struct(state)
        stage = self.apply(form(function, output, state, timeout, ArrowSettings.of(spark)), output)
        return replace(stage, initial_state=initial_state)

    def apply(self, operator: Operator, output_schema: StructType | None = None) -> Stage:
        """Run any operator; Spark's schema of its output follows from Arrow's, or is given."""
        if self.span is not None:
            raise ArgumentError("windows are for aggregates", got=operator, hint="group by the key alone")
        return self._run(operator, output_schema)

    def _run(
        self, operator: Operator, output_schema: StructType | None = None, native: StructType | None = None
    ) -> Stage:
        events, schema = self.events, arrow_schema(self.events)
        bound = operator.bind(schema, self.key)
        if len(bound.columns_read) < len(schema):
            events = events.select(*map(quoted, bound.columns_read))
            kept = [schema.field(name) for name in bound.columns_read]
            bound = operator.bind(pa.schema(kept, metadata=schema.metadata), self.key)
        dotted = [name for name in bound.columns_read if "." in name]
        if dotted:
            raise ColumnError(
                "Spark cannot hand a column with a dot in its name to Python", got=dotted[0], hint="rename it first"
            )
        if self.settings.splitting.by_tuple and not bound.splittable:
            raise ArgumentError(
                "keys of this operator cannot be split: it cannot merge partial states in any order, has timeouts, or "
                "puts out all state in complete mode",
                got=operator,
                hint="leave split= out; every key then has one owner",
            )
        output = output_schema or from_arrow_schema(bound.result_schema, prefer_timestamp_ntz=True)
        planning = self.settings.planning
        planner = planning.planner.knowing(bound.memory, bound.compute)
        return Stage(
            events=events,
            key=self.key,
            operator=bound,
            output_schema=output if native is None else spark_types(native, output),
            settings=replace(self.settings, planning=replace(planning, planner=planner)),
            cores=self.cores,
            shuffled=has_shuffle(self.events),
            output_mode=bound.output_mode,
        )


def _struct(schema: StructType | str) -> StructType:
    return StructType.fromDDL(schema) if isinstance(schema, str) else schema  # type: ignore[return-value]


def _scheme(split: str | Splitter | None) -> Splitter | None:
    """Return the scheme for all rows, if one is wanted."""
    if split is None or split == AUTO:
        return None
    if isinstance(split, str):
        split = splitter(split)
    if split.shares_memory or not split.online:
        raise ArgumentError(
            f"{split.name} needs one memory for all tasks, or tuples that are still to come",
            where="split",
            hint="choose auto, pkg, greedy-d, d-choices, w-choices or shuffle",
        )
    return split
