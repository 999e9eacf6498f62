"""From a batch whose channels have worked to its record, and to its figures."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa

from unskew.load.channels import ChannelUse
from unskew.load.statistics import Statistics
from unskew.operators import Learner, Mergeable
from unskew.operators.partials import merge_partials
from unskew.runtime.batch import Batch, Ran
from unskew.runtime.figures import BatchFigures, Loads, hot_keys, moves_made
from unskew.runtime.record import ChannelState, Output, Record
from unskew.runtime.wire import pack, unpack


def record_of(batch: Batch, ran: Ran, fingerprint: str, epoch: int) -> Record:
    """Return the record of a batch: all that the next batch, a replay or a reader has to know."""
    before, reports, plan = batch.before, ran.reports, ran.plan
    channels = dict(before.channels)
    for channel, report in reports.by_channel.items():
        channels.pop(channel, None)
        if report.manifest is not None and (report.state_rows or channel < plan.table.channels):
            channels[channel] = ChannelState(
                report.manifest, report.files, report.state_rows, report.state_bytes, report.earliest
            )
    output, learned = _output(batch, ran)
    statistics, measured = reports.statistics, any(report.measured for report in reports.by_channel.values())
    intervals = ran.intervals
    if batch.settings.planning.when == "ahead" and reports.by_channel:
        intervals = intervals.add(statistics, _use(batch, ran), batch.clock.processing_time_ms)
    return replace(
        before,
        batch_id=batch.clock.batch_id,
        fingerprint=fingerprint,
        epoch=epoch,
        watermark_ms=batch.clock.watermark_ms,
        table=replace(plan.table, names=_names(batch, ran)),
        channels=channels,
        wish=batch.channels,
        held=before.held.after(reports.by_channel.values(), plan.table),
        output=output,
        memory=plan.memory,
        costs=before.costs.learn(statistics, reports.sum_of("keys"), reports.sum_of("seconds"), measured),
        intervals=intervals,
        learned=learned,
        memory_bytes=batch.memory_bytes,
        rows=ran.counted.rows or before.rows,
    )


def _names(batch: Batch, ran: Ran) -> dict[int, str]:
    """Return the keys that the table lists, as people read them."""
    listed, counted = ran.plan.table.listed_keys, ran.counted
    before, wanted = batch.before.table.names, set(listed.tolist())
    seen = np.isin(counted.hashes, listed)
    now = zip(counted.hashes[seen].tolist(), counted.names.filter(pa.array(seen)).to_pylist(), strict=True)
    return {key: name for key, name in before.items() if key in wanted} | dict(now)


def _texts(statistics: Statistics) -> dict[int, str]:
    """Return the keys that channels have reported, as people read them."""
    if statistics.keys is None:
        return {}
    pairs = zip(statistics.hashes.tolist(), statistics.keys.to_pylist(), strict=True)
    return {key: text for key, text in pairs if text is not None}


def _output(batch: Batch, ran: Ran) -> tuple[Output, bytes]:
    """Return the rows for the sink, in the order of channels, and what a learner knows after them."""
    operator, inline, pieces = batch.operator, ran.results.inline, ran.results.pieces
    parts = [unpack(blob) for blob in ran.results.partials]
    if parts and isinstance(operator, Mergeable):
        inline.append(pack(merge_partials(operator, parts).combine_chunks()))
    if not isinstance(operator, Learner):
        return Output(tuple(inline), tuple(pieces)), b""
    blobs = [*inline, *(batch.site.files.read_piece(piece) for piece in pieces)]
    arrived = [operator.output_schema.empty_table(), *(unpack(blob) for blob in blobs)]
    rows = pa.concat_tables([table.cast(operator.output_schema) for table in arrived])
    learned = operator.learn(batch.before.learned, rows)
    return Output((pack(operator.result(learned, rows).combine_chunks()),)), learned


def _use(batch: Batch, ran: Ran) -> ChannelUse | None:
    """Return how long each channel waited for the slowest, whose memory did not suffice, and what moves took."""
    reports, given = ran.reports.by_channel, batch.memory_bytes
    channels = range(ran.plan.table.channels)
    busy = np.array([reports[channel].seconds if channel in reports else 0.0 for channel in channels])
    longest = float(busy.max())
    if longest <= 0:
        return None
    memory = spilled = None
    if given:
        memory = np.array([given[min(channel, len(given) - 1)] for channel in channels], np.float64)
        spilled = np.zeros(batch.site.slots, np.bool_)
        for report in reports.values():
            spilled[list(report.spilled_slots)] = True
    moving = max(report.move_seconds for report in reports.values())
    return ChannelUse(longest, longest - busy, memory, spilled, moving)


def figures_of(batch: Batch, ran: Ran, record: Record) -> BatchFigures:
    """Return a batch that has ended in figures."""
    plan, reports, counted = ran.plan, ran.reports, ran.counted
    channels = max(plan.before.channels, plan.table.channels)
    loads = Loads.of(reports.by_channel, channels, counted)
    names = {**batch.before.table.names}
    names |= dict(zip(counted.hashes.tolist(), counted.names.to_pylist(), strict=True))
    names |= _texts(reports.statistics)
    measured = any(report.measured for report in reports.by_channel.values())
    present = [reports.by_channel.get(channel) for channel in range(channels)]
    return BatchFigures(
        batch_id=record.batch_id,
        way=ran.way,
        channels=plan.table.channels,
        tasks=ran.tasks,
        rows=counted.rows,
        late_rows=reports.sum_of("late_rows"),
        imbalance=loads.imbalance,
        hash_imbalance=loads.hash_imbalance,
        busiest_seconds=loads.busiest_seconds,
        hash_seconds=loads.hash_seconds,
        channel_rows=tuple(loads.rows.tolist()),
        channel_seconds=tuple(loads.seconds.tolist()),
        channel_keys=tuple(-1 if each is None else each.state_rows for each in present),
        channel_bytes=tuple(-1 if each is None else each.state_bytes for each in present),
        channel_spilled=tuple(0 if each is None else each.spilled_bytes for each in present),
        hot_keys=hot_keys(reports.statistics, plan.table, names, measured=measured),
        moves=moves_made(plan.moves, names),
        moved_keys=len(plan.moves.keys),
        moved_slots=len(plan.moves.slots),
        moved_bytes=reports.sum_of("moved_bytes"),
        planner=None if plan.report is None else plan.report.planner,
        planning_seconds=0.0 if plan.report is None else plan.report.seconds,
        plan=None if plan.report is None else asdict(plan.report),
        table_version=plan.table.version,
        table_keys=len(plan.table.explicit_hashes),
        split_keys=len(plan.table.split),
        state_keys=sum(each.rows for each in record.channels.values()),
        state_bytes=sum(each.bytes for each in record.channels.values()),
        watermark_ms=record.watermark_ms,
        channel_found=tuple("" if each is None else each.found for each in present),
        homes=len(ran.homes),
        seconds=batch.watch.seconds,
    )
