"""A channel: one group of Spark's, all keys of the channel inside."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from unskew.load.statistics import add_up
from unskew.operators import Clock, KeyedState, Mergeable, Operator
from unskew.operators.partials import partial_states
from unskew.spark.cache import executor_cache
from unskew.spark.cutting import cut, pieces
from unskew.spark.decision import Decision
from unskew.spark.files import read_entry
from unskew.spark.measure import channel_statistics, spilled_slots
from unskew.spark.packing import pack, unpack
from unskew.spark.reports import ChannelReport
from unskew.spark.router import COUNT_COLUMN, HASH_COLUMN
from unskew.spark.store import SparkStore
from unskew.spark.task import current_decision

OBSERVED = {"rows": "long", "late_rows": "long", "seconds": "double", "state_rows": "long", "state_bytes": "long"}
"""Figures of a report that stand in columns of their own, null in other rows, where Spark's `observe` sees them."""

OUTPUT_SCHEMA = ", ".join(["kind string, channel int, payload binary", *(f"{n} {t}" for n, t in OBSERVED.items())])
ROWS, MANY_ROWS, PARTIALS, REPORT = "rows", "many rows", "partials", "report"
"""Kinds of payloads; many rows are those that are too large for the driver."""

ROWS_PER_PAYLOAD = 1 << 18


@dataclass(frozen=True)
class ChannelSettings:
    """What every channel of a query knows.

    Parameters
    ----------
    query
        Name under which decisions are found.
    operator
        What runs inside, bound to its input.
    labels
        The group label of each channel.
    slots
        Slots of the routing table.
    tracked_keys
        Keys that a channel reports one by one, at most; the rest is reported by slot. None: all that had rows.
    cache_bytes
        Budget of the executor's cache of state.
    workers
        Whether rows come from the workers of a splitting scheme, one source each.
    bytes_for_the_driver
        Output of a batch that travels to the driver, at most: of each channel its part, or else none.
    """

    query: str
    operator: Operator
    labels: tuple[int, ...]
    slots: int
    tracked_keys: int | None
    cache_bytes: int
    workers: bool = False
    bytes_for_the_driver: int = 32 << 20


class ChannelProcessor(StatefulProcessor):
    """Runs the operator on a channel's rows and keeps its state; carries out what was decided for the batch.

    Called once per batch, with all rows of the channel: installs state that moved here, lets the operator work,
    extracts what leaves, reports. Rows of one key come in the order of their source partitions. A batch's rows of
    one channel are held in memory.
    """

    def __init__(self, settings: ChannelSettings) -> None:
        self.settings = settings

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Find the state of the group; called by Spark."""
        self._handle = handle
        self._store = SparkStore(handle)

    def close(self) -> None:
        """Do nothing; called by Spark."""

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Work on a batch that has rows, for this channel or another; called by Spark."""
        yield from self._batch(key, self._packs(rows), timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Work on a batch without rows, in which time has passed; called by Spark."""
        yield from self._batch(key, [], timerValues)

    def _batch(self, key: Any, packs: list[tuple[int, pa.Table]], timers: TimerValues) -> Iterator[pd.DataFrame]:
        settings, operator, decision = self.settings, self.settings.operator, current_decision(self.settings.query)
        channel = settings.labels.index(int(key[0]))
        clock = self._clock(decision, timers)
        with KeyedState.open(
            self._store,
            operator.key_schema,
            operator.value_schema,
            slots=settings.slots,
            deadline=operator.deadline,
            cache=executor_cache(settings.cache_bytes).place(settings.query, channel),
            memory_bytes=decision.memory_bytes[channel] if decision.memory_bytes else None,
        ) as state:
            output, partials, report = self._work(state, channel, packs, decision, clock)
            state.commit(f"{decision.batch_id}-{uuid.uuid4().hex}")
        self._be_called_again(clock)
        packed = [pack(part) for part in cut(output.to_batches(), ROWS_PER_PAYLOAD)]
        few = sum(map(len, packed)) <= settings.bytes_for_the_driver // decision.channels_called
        payloads = [(ROWS if few else MANY_ROWS, blob) for blob in packed]
        if partials is not None:
            payloads.append((PARTIALS, pack(partials)))
        payloads.append((REPORT, report.to_bytes()))
        yield from _frames(payloads, channel, report)

    def _clock(self, decision: Decision, timers: TimerValues) -> Clock:
        watermark = timers.getCurrentWatermarkInMs() if self.settings.operator.time_mode == "event" else None
        now = timers.getCurrentProcessingTimeInMs()
        return Clock(decision.batch_id, now, watermark, decision.previous_watermark_ms)

    def _be_called_again(self, clock: Clock) -> None:
        """Set the one timer of the channel to the next instant, so that Spark calls it in batches without rows too."""
        mode = self.settings.operator.time_mode
        if mode == "none":
            return
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        now = clock.watermark_ms if mode == "event" else clock.processing_time_ms
        self._handle.registerTimer((now or 0) + 1)

    def _packs(self, rows: Iterator[pd.DataFrame]) -> list[tuple[int, pa.Table]]:
        """Return the batch's rows of this channel and their source, in the order of source partition and sequence."""
        frames = list(rows)
        if not frames:
            return []
        packs = pd.concat(frames).dropna(subset=["blob"]).sort_values(["source", "sequence"])
        schema = self._row_schema
        return [(s, unpack(blob).cast(schema)) for s, blob in zip(packs["source"], packs["blob"], strict=True)]

    @property
    def _row_schema(self) -> pa.Schema:
        operator = self.settings.operator
        schema = operator.combined_schema.append(pa.field(HASH_COLUMN, pa.int64()))
        return schema.append(pa.field(COUNT_COLUMN, pa.int64())) if operator.mergeable else schema

    def _work(
        self, state: KeyedState, channel: int, packs: list[tuple[int, pa.Table]], decision: Decision, clock: Clock
    ) -> tuple[pa.Table, pa.Table | None, ChannelReport]:
        operator = self.settings.operator.taught(decision.lesson)
        files = decision.install.get(channel, ())
        for file in files:
            moved = unpack(read_entry(file)).cast(state.row_schema)
            if isinstance(operator, Mergeable):
                operator.absorb(state, moved)  # a split key may be here in part
            else:
                state.install(moved)
        table = pa.concat_tables([pack for _, pack in packs] or [self._row_schema.empty_table()]).combine_chunks()
        rows = table.select(operator.combined_schema.names)
        groups = state.group(rows, table.column(HASH_COLUMN).to_numpy())
        tuples = groups.counts.astype(np.float64)
        if operator.mergeable:
            tuples = add_up(table.column(COUNT_COLUMN).to_numpy(), groups.group_of_row, len(groups))
        started = time.perf_counter()
        output = operator.update(state, groups, rows, clock)
        timed_out = operator.expire(state, clock)
        seconds = time.perf_counter() - started
        partials = None
        shared = np.array([key for key, split in decision.table.split.items() if channel in split], np.int64)
        if len(shared):  # of those, the output is made where all parts are together
            output = output.filter(pa.array(~np.isin(groups.hashes, shared)))
            partials = partial_states(state, groups, shared)
        cost = tuples if operator.seconds is None else operator.seconds
        statistics = channel_statistics(state, groups, tuples, cost, decision.table, self.settings.tracked_keys)
        extracted, spilled = _extract(state, channel, decision), state.spilled_bytes
        report = ChannelReport(
            channel=channel,
            statistics=statistics,
            installed=files,
            extracted=extracted,
            rows=int(tuples.sum()),
            late_rows=operator.late_rows,
            seconds=seconds,
            state_rows=state.rows,
            state_bytes=state.bytes,
            watermark_ms=clock.watermark_ms,
            worker_rows=_rows_by_worker(packs, len(self.settings.labels)) if self.settings.workers else (),
            spilled_bytes=int(spilled.sum()),
            spilled_slots=spilled_slots(spilled, state.slot_bytes),
        )
        return pa.concat_tables([output, timed_out]).combine_chunks(), partials, report


def _extract(state: KeyedState, channel: int, decision: Decision) -> dict[int, pa.Table]:
    moves = decision.extract
    keys_here, slots_here = moves.key_sources == channel, moves.slot_sources == channel
    targets = np.union1d(moves.key_targets[keys_here], moves.slot_targets[slots_here])
    return {
        int(target): state.extract(
            hashes=moves.keys[keys_here & (moves.key_targets == target)],
            slots=moves.slots[slots_here & (moves.slot_targets == target)],
            keep=decision.listed_keys,
        )
        for target in targets
    }


def _rows_by_worker(packs: list[tuple[int, pa.Table]], workers: int) -> tuple[int, ...]:
    rows = [0] * workers
    for worker, partials in packs:
        rows[worker] += pc.sum(partials[COUNT_COLUMN]).as_py()
    return tuple(rows)


def _frames(payloads: list[tuple[str, bytes]], channel: int, report: ChannelReport) -> Iterator[pd.DataFrame]:
    """Yield payloads, the report last, in frames of which each fits into an array of Arrow's."""
    kinds, blobs = zip(*payloads, strict=True)
    columns = {"kind": kinds, "channel": np.full(len(kinds), channel, np.int32), "payload": blobs}
    last = [None] * (len(kinds) - 1)
    frame = pd.DataFrame(columns | {name: pd.array([*last, getattr(report, name)]) for name in OBSERVED})
    for start, end in pieces(np.array(list(map(len, blobs))), len(blobs)):
        yield frame.iloc[start:end]
