"""``unskew.balance``: the one line that changes in a user's job."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError, ColumnError
from unskew.hashing import check_key_type
from unskew.operators import Operator
from unskew.operators.aggregate import Aggregate
from unskew.operators.base import EVENT_TIME_METADATA
from unskew.operators.session_aggregate import SessionAggregate
from unskew.operators.window_aggregate import WindowAggregate
from unskew.planners import Planner
from unskew.planners import planner as make_planner
from unskew.routing.table import DEFAULT_SLOTS
from unskew.spark.batch import BalancedBatch
from unskew.spark.controller import Controller
from unskew.spark.inputs import EVENT_TIME_MARK
from unskew.spark.memory import memory_budgets
from unskew.spark.per_key import ArrowSettings, Lean, LeanFunction, PandasFunction, PerKeyFunction
from unskew.spark.plans import has_shuffle, watermark_columns
from unskew.spark.stage import Stage
from unskew.spark.times import milliseconds
from unskew.spark.windowed import WindowedStream
from unskew.splitters import SPLITTERS, Splitter, splitter

GIBIBYTE = 1 << 30

AUTO = "auto"

OUTPUT_MODES = ("append", "update")


def balance(
    events: DataFrame,
    key: str | Sequence[str],
    *,
    channels: int | Literal["auto"] = 8,
    max_channels: int | None = None,
    planner: str | Planner = "mixed",
    tolerance: float | None = None,
    interval: int | str = 1,
    tracked_keys: int | None = 2000,
    max_move_bytes: int = 64 << 20,
    min_gain: float = 0.02,
    split: str | Splitter | None = None,
    slots: int = DEFAULT_SLOTS,
    cache_bytes: int = GIBIBYTE,
    memory_bytes: int | Sequence[int] | None = None,
    sample: float | None = None,
) -> BalancedStream:
    """Group a stream by a key, as ``events.groupBy(key)`` does, and keep the work balanced while it runs.

    Every key has one owner among the channels; when loads drift apart, state moves to other channels between two
    batches. The results are those of Spark alone.

    Parameters
    ----------
    events
        A streaming DataFrame. Of static rows a `unskew.spark.batch.BalancedBatch` comes, which plans once.
    key
        The key's column or columns.
    channels
        Groups that work side by side; like the number of shuffle partitions of a native job. ``"auto"`` begins with
        as many as Spark has cores and follows the load, see `unskew.spark.scaling.Scaling`. A query that continues
        from its checkpoint goes on with as many as it had.
    max_channels
        How many there may be after a `BalancedQuery.resize`; by default no more than at first, with ``"auto"`` twice as
        many, or as many as a checkpoint has that is continued. Fixed for the life of a checkpoint. Each one that is not
        in use still costs a task in every batch.
    planner
        Who decides which channel owns which key: a name (``unskew planners`` lists them) or a `Planner`.
    tolerance
        Overload allowed over the mean, max/mean - 1; the planner's own default where not given.
    interval
        How often to plan at most: every so many batches, or a time such as ``"30 seconds"``.
    tracked_keys
        Keys that each channel reports one by one, at most; the rest is reported by slot. None reports all.
    max_move_bytes
        State that may move in one batch.
    min_gain
        Plans are carried out only if they make the fullest channel lighter by this share of the mean.
    split
        For operators that can merge partial states, such as aggregates. ``"auto"``: keys that no channel can carry
        alone are shared by all channels, as long as they are so hot; all others have an owner. A splitting scheme
        (``"pkg"``, ``"greedy-d"``, ``"d-choices"``, ``"w-choices"``, ``"shuffle"``, or a `Splitter`): all rows go to
        workers by that scheme, which send partial states to the owners; the planner is not asked.
    slots
        Slots of the routing table; fixed for the life of a checkpoint.
    cache_bytes
        Budget of each executor's local cache of state.
    memory_bytes
        State that each channel may hold in that cache: one number for all, or one for each of `max_channels`. What was
        changed least recently stays in Spark's state store beyond that, and is read from there when a row needs it;
        planners ``flux-memory`` and ``flux-hybrid`` move slots away from channels that have too little. See also
        `BalancedQuery.limit_memory`.
    sample
        For static rows: the share of them that statistics are taken from, such as 0.05; all where not given.
    """
    names = (key,) if isinstance(key, str) else tuple(key)
    for name in names:
        if name not in events.columns:
            raise ColumnError("there is no column of that name", got=name, hint=f"one of {', '.join(events.columns)}")
        check_key_type(name, events.schema[name].dataType.simpleString())
    elastic = channels == "auto"
    first = events.sparkSession.sparkContext.defaultParallelism if channels == "auto" else channels
    limit = max_channels or (2 * first if elastic else first)
    if first < 1:
        raise ArgumentError("a stream needs at least one channel", got=channels)
    if limit < first:
        raise ArgumentError(f"there are {first} channels already at first", got=max_channels, where="max_channels")
    parameters: dict[str, Any] = {} if tolerance is None else {"tolerance": tolerance}
    chosen = make_planner(planner, **parameters) if isinstance(planner, str) else planner
    if not events.isStreaming:
        return BalancedBatch(events, names, first, slots, chosen, tracked_keys, sample)  # type: ignore[return-value]
    batches, pause_ms = (interval, 0) if isinstance(interval, int) else (1, milliseconds(interval))
    if batches < 1:
        raise ArgumentError("an interval has at least one batch", got=interval)
    controller = Controller(
        chosen, batches, max_move_bytes, min_gain, pause_ms, splitting=split == AUTO, scheme=_scheme(split)
    )
    return BalancedStream(
        events,
        names,
        first,
        limit,
        elastic,
        slots,
        controller,
        tracked_keys,
        cache_bytes,
        memory_budgets(memory_bytes, limit),
        limited=max_channels is not None or not elastic,
    )


@dataclass(frozen=True, eq=False)
class BalancedStream:
    """A stream grouped by key, in place of Spark's `GroupedData`: say what shall be done per key."""

    events: DataFrame
    key: tuple[str, ...]
    channels: int
    max_channels: int
    elastic: bool
    slots: int
    controller: Controller
    tracked_keys: int | None
    cache_bytes: int
    memory_bytes: tuple[int, ...] = ()
    limited: bool = True

    def aggregate(self, **aggregates: str) -> Stage:
        """Keep running aggregates per key: ``aggregate(n="count", total="sum(amount)")``.

        Each batch yields one row for every key that had rows in it, as Spark's update mode does.
        """
        return self.apply(Aggregate(**aggregates))

    def window(
        self,
        size: str,
        slide: str | None = None,
        *,
        offset: str = "0 seconds",
        on: str | None = None,
        output_mode: str | None = None,
    ) -> WindowedStream:
        """Group by windows of event time too: ``window("10 minutes", slide="5 minutes").aggregate(n="count")``.

        Says what ``groupBy(key, window(time, size, slide))`` says in the same output mode; see `WindowAggregate`. The
        mode may also be said later, with ``writeStream.outputMode(...)``.
        """
        return WindowedStream(self.apply, partial(WindowAggregate, size, slide, offset, on), output_mode)

    def session_window(self, gap: str, *, on: str | None = None) -> WindowedStream:
        """Group by sessions too: ``session_window("30 minutes").aggregate(n="count")``; see `SessionAggregate`."""
        return WindowedStream(self.apply, partial(SessionAggregate, gap, on), has_modes=False)

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
        spark: Any = self.events.sparkSession
        output, state = (spark._parse_ddl(each) if isinstance(each, str) else each for each in (output, state))
        stage = self.apply(form(function, output, state, timeout, ArrowSettings.of(spark)), output)
        return replace(stage, initial_state=initial_state)

    def apply(self, operator: Operator, output_schema: StructType | None = None) -> Stage:
        """Run any operator; Spark's schema of its output follows from Arrow's, or is given."""
        bound = operator.bind(_arrow_schema(self.events), self.key)
        splits = self.controller.splitting or self.controller.scheme is not None
        if splits and not bound.splittable:
            raise ArgumentError(
                "keys of this operator cannot be split: it cannot merge partial states in any order, or has timeouts",
                got=operator,
                hint="leave split= out; every key then has one owner",
            )
        planner = self.controller.planner.knowing(bound.memory, bound.compute)
        return Stage(
            events=self.events,
            operator=bound,
            output_schema=output_schema or from_arrow_schema(bound.result_schema, prefer_timestamp_ntz=True),
            channels=self.channels,
            max_channels=self.max_channels,
            elastic=self.elastic,
            slots=self.slots,
            controller=replace(self.controller, planner=planner),
            tracked_keys=self.tracked_keys,
            cache_bytes=self.cache_bytes,
            memory_bytes=self.memory_bytes,
            shuffled=has_shuffle(self.events),
            output_mode=bound.output_mode,
            limited=self.limited,
        )


def _scheme(split: str | Splitter | None) -> Splitter | None:
    """Return the scheme for all rows, if one is wanted."""
    if split is None or split == AUTO:
        return None
    if isinstance(split, str):
        distinct = {"distinct": True} if "distinct" in inspect.signature(SPLITTERS[split]).parameters else {}
        split = splitter(split, **distinct)
    if split.shares_memory or not split.online:
        raise ArgumentError(
            f"{split.name} needs one memory for all tasks, or tuples that are still to come",
            where="split",
            hint="choose auto, pkg, greedy-d, d-choices, w-choices or shuffle",
        )
    return split


def _arrow_schema(rows: DataFrame) -> pa.Schema:
    """Return the rows' schema as tasks see it, with the column of the watermark, if there is one, in its metadata."""
    schema = to_arrow_schema(rows.schema, timezone=rows.sparkSession.conf.get("spark.sql.session.timeZone"))
    watermarks = [field.name for field in rows.schema if EVENT_TIME_MARK in field.metadata] or watermark_columns(rows)
    if len(watermarks) > 1:
        raise ArgumentError("a stream may have one watermark", got=watermarks, hint="see unskew.tagged for several")
    return schema.with_metadata({EVENT_TIME_METADATA: watermarks[0]}) if watermarks else schema
