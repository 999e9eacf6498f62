"""Rows grouped by key: what to do with each key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as sql
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError
from unskew.load.statistics import Statistics
from unskew.operators import Operator
from unskew.operators.heaviest_keys import HeaviestKeys
from unskew.operators.session_aggregate import SessionAggregate
from unskew.operators.window_aggregate import WindowAggregate
from unskew.planners import Plan
from unskew.spark.batch import BalancedBatch, BatchStage, Form, OfBatch, Spread
from unskew.spark.columns import Span, grouping
from unskew.spark.grouped import Grouped
from unskew.spark.initial_state import Beginning
from unskew.spark.internals import read_grouped
from unskew.spark.pair import BalancedPair
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
)
from unskew.spark.per_key.processor_handle import parse
from unskew.spark.stage import Stage

OUTPUT_MODES = ("append", "update")


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
            ``timeout_ms``. `unskew.state_of` gives that of a native query; see `Stage.continue_from`.
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
        output, state = parse(output), parse(state)
        settings = ArrowSettings.of(self.events.sparkSession)
        operator = form(function, output, state, timeout, settings, max_call_seconds)
        operator.hidden = self.hidden
        stage = self.apply(operator, output)
        return stage if initial_state is None else stage.continue_from(initial_state)

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
        output = parse(output)
        operator = form(processor, output, time_mode, ArrowSettings.of(self.events.sparkSession), event_time)
        operator.hidden = self.hidden
        stage = replace(self.apply(operator, output), output_mode=mode.lower())
        if initial is None:
            return stage
        if isinstance(initial, Balanced):
            rows, key = initial.events, initial.key
        elif isinstance(initial, DataFrame):
            rows, key = initial, self.key
        else:
            rows, key = read_grouped(initial)
        return replace(stage, beginning=Beginning(rows, partial(handled_parcels, key)))

    def applyInPandas(self, func: Callable[..., Any], schema: StructType | str) -> DataFrame | BatchStage:  # noqa: N802
        """Call a function for every key, as Spark's method of this name does: same arguments, same rows, same errors.

        Static rows give a DataFrame. A stream gives a stage: as under Spark, every micro-batch is grouped on its own.
        Each batch is balanced by its own counts. See `BatchStage` for what a failure means.

        Parameters
        ----------
        func
            ``func(frame)`` or ``func(key, frame)`` returns a frame. With the type hints ``Iterator[pandas.DataFrame]``
            for rows and result it takes and yields frames, a piece of the group at a time.
        schema
            Schema of the output, as a `StructType` or as a DDL string.
        """
        return self._call("applyInPandas", func, schema)

    def applyInArrow(self, func: Callable[..., Any], schema: StructType | str) -> DataFrame | BatchStage:  # noqa: N802
        """Call a function for every key with Arrow data, as Spark's method of this name does; see `applyInPandas`.

        ``func(table)`` or ``func(key, table)`` returns a `pyarrow.Table`; the key is a tuple of Arrow scalars. With the
        type hints ``Iterator[pyarrow.RecordBatch]`` for rows and result it takes and yields batches.
        """
        return self._call("applyInArrow", func, schema)

    def _call(self, method: str, func: Callable[..., Any], schema: StructType | str) -> DataFrame | BatchStage:
        form = Form(method, inputs=1)
        native = form.on(self.spark_groups, func, schema)  # refuses what Spark refuses
        if self.events.isStreaming:
            keyed = self.keyed
            return BatchStage(keyed.rows, OfBatch(keyed.spread, form, func, native.schema), native.schema)
        return self.at_hand.call(form, func, schema)

    def cogroup(self, other: Balanced) -> BalancedPair:
        """Group with other rows by the same key, for ``applyInPandas`` and ``applyInArrow`` of the pair.

        Key columns are matched by position and must have the same types.
        """
        if not isinstance(other, Balanced):
            raise ArgumentError(
                "cogroup takes other balanced rows",
                got=type(other).__name__,
                hint="cogroup(unskew.balance(other, key))",
            )
        return BalancedPair(self, other)

    @property
    def statistics(self) -> Statistics:
        """Static rows, counted by key."""
        return self.at_hand.statistics

    @property
    def plan(self) -> Plan:
        """The routing table for static rows, and what it does, in figures."""
        return self.at_hand.plan

    @cached_property
    def at_hand(self) -> BalancedBatch:
        """The rows, if they are static."""
        if self.events.isStreaming:
            raise ArgumentError(
                "this method is for static rows, and this is a stream",
                hint="applyInPandasWithState, apply_per_key or agg",
            )
        return self.keyed

    @cached_property
    def keyed(self) -> BalancedBatch:
        """The rows with a column for every key, windows included, which functions get as keys like any other."""
        rows, key, hidden = self.events, self.key, self.hidden
        if self.span is not None:
            groups = grouping(self.own, self.given, windows=False)
            rows, key, hidden = groups.rows, groups.key, groups.hidden
        channels, planning = self.settings.channels, self.settings.planning
        planned = (planning.planner, planning.tracked_keys, self.sample)
        spread = Spread(key, hidden, channels.count, channels.slots, *planned)
        return BalancedBatch(rows, spread)

    @property
    def spark_groups(self) -> GroupedData:
        """Spark's own grouping of the user's rows."""
        if self.span is not None and len(self.given) == len(self.key):
            raise ArgumentError("window() is for aggregates", hint='group by F.window("ts", "10 minutes")')
        return self.own.groupBy(*self.given)

    def apply(self, operator: Operator, output_schema: StructType | None = None) -> Stage:
        """Run any operator. Spark's schema of its output follows from Arrow's unless you give one."""
        if self.span is not None:
            raise ArgumentError("windows are for aggregates", got=operator, hint="group by the key alone")
        if not isinstance(operator, Operator):
            raise ArgumentError("this is not an operator", got=operator, hint="one of unskew.operators, or your own")
        return self._run(operator, output_schema)


def _check_mode(mode: str) -> None:
    if str(mode).lower() not in OUTPUT_MODES:
        raise ArgumentError("there is no such output mode", got=mode, hint=" or ".join(OUTPUT_MODES))
