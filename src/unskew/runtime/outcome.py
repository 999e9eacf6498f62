"""From a batch whose channels have worked to its record, and to its figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.codec import load
from unskew.load.channels import ChannelUse
from unskew.load.metrics import skewness
from unskew.operators import Learner, Mergeable
from unskew.operators.partials import merge_partials
from unskew.planners.report import Report
from unskew.routing.moves import Moves
from unskew.runtime.batch import Batch, Ran
from unskew.runtime.channel import HOT_KEYS
from unskew.runtime.figures import BatchFigures, HotKey, MoveMade
from unskew.runtime.record import Output, Record
from unskew.runtime.results import sum_of
from unskew.runtime.wire import OUTPUT, OUTPUT_PIECE, PARTIALS, pack, unpack
from unskew.state.files import Piece

MOVES_LISTED = 200


def record_of(batch: Batch, ran: Ran, fingerprint: str, epoch: int) -> Record:
    """Return the record of a batch: all that the next batch, a replay or a reader has to know."""
    before, reports, table = batch.before, ran.reports, ran.plan.table
    channels = {channel: state for channel, state in before.channels.items() if channel not in reports}
    for channel, report in reports.items():
        if report.state is not None and (report.state.rows or channel < table.channels):
            channels[channel] = report.state
    output, learned = _output(batch, ran)
    intervals = ran.intervals
    if batch.settings.planning.when == "ahead" and reports:
        intervals = intervals.add(ran.statistics, _use(batch, ran), batch.clock.processing_time_ms)
    by_channel = {channel: report.statistics for channel, report in reports.items()}
    return replace(
        before,
        batch_id=batch.clock.batch_id,
        fingerprint=fingerprint,
        epoch=epoch,
        watermark_ms=batch.clock.watermark_ms,
        table=replace(table, names=_listed_names(batch, ran)),
        channels=channels,
        wish=batch.channels,
        held=before.held.after(by_channel, ran.statistics, table),
        output=output,
        memory=ran.plan.memory,
        costs=before.costs.learn(ran.statistics, sum_of(reports, "keys"), sum_of(reports, "seconds"), ran.measured),
        intervals=intervals,
        learned=learned,
        memory_bytes=batch.memory_bytes,
        rows=ran.counted.rows or before.rows,
    )


def _listed_names(batch: Batch, ran: Ran) -> dict[int, str]:
    """Return the keys that the table lists, as people read them."""
    listed, counted = ran.plan.table.listed_keys, ran.counted
    before, wanted = batch.before.table.names, set(listed.tolist())
    seen = np.isin(counted.hashes, listed)
    now = zip(counted.hashes[seen].tolist(), counted.names.filter(pa.array(seen)).to_pylist(), strict=True)
    return {key: name for key, name in before.items() if key in wanted} | dict(now)


def _output(batch: Batch, ran: Ran) -> tuple[Output, bytes]:
    """Return the rows for the sink, in the order of channels, and what a learner knows after them."""
    operator, inline = batch.operator, ran.results.payloads(OUTPUT)
    pieces = [load(Piece, payload) for payload in ran.results.payloads(OUTPUT_PIECE)]
    parts = [unpack(blob) for blob in ran.results.payloads(PARTIALS)]
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
    reports, given = ran.reports, batch.memory_bytes
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
    """Return the figures of a batch that has ended."""
    plan, reports, counted = ran.plan, ran.reports, ran.counted
    channels = max(plan.before.channels, plan.table.channels)
    seconds, costs, rows = np.zeros(channels), np.zeros(channels), np.zeros(channels, np.int64)
    keys, sizes, spilled, found = [-1] * channels, [-1] * channels, [0] * channels, [""] * channels
    for channel, report in reports.items():
        seconds[channel], costs[channel], rows[channel] = report.seconds, report.statistics.total_cost, report.rows
        keys[channel], sizes[channel] = (report.state.rows, report.state.bytes) if report.state else (0, 0)
        spilled[channel], found[channel] = report.spilled_bytes, report.found
    workers = [report.worker_rows for report in reports.values() if report.worker_rows]
    if workers:  # a splitting scheme: the work is done before the rows reach their owners
        rows = np.sum(workers, axis=0, dtype=np.int64)
        costs = rows.astype(np.float64)
    total, under_hash = float(costs.sum()), counted.under_hash(ran.statistics)
    seconds_per_cost = float(seconds.sum()) / total if total > 0 else 0.0
    names = _all_names(batch, ran)
    return BatchFigures(
        batch_id=record.batch_id,
        way=ran.way,
        channels=plan.table.channels,
        tasks=ran.work.tasks,
        rows=counted.rows,
        late_rows=sum_of(reports, "late_rows"),
        imbalance=skewness(costs),
        hash_imbalance=None if under_hash is None else skewness(under_hash),
        busiest_seconds=float(costs.max(initial=0.0)) * seconds_per_cost,
        hash_seconds=None if under_hash is None else float(under_hash.max()) * seconds_per_cost,
        channel_rows=tuple(rows.tolist()),
        channel_seconds=tuple(seconds.tolist()),
        channel_keys=tuple(keys),
        channel_bytes=tuple(sizes),
        channel_spilled=tuple(spilled),
        hot_keys=_hot_keys(ran, names),
        moves=_moves_made(plan.moves, names),
        moved_keys=len(plan.moves.keys),
        moved_slots=len(plan.moves.slots),
        moved_bytes=sum_of(reports, "moved_bytes"),
        planner=None if plan.report is None else plan.report.planner,
        planning_seconds=0.0 if plan.report is None else plan.report.seconds,
        plan=None if plan.report is None else _as_text(plan.report, names, batch.site.slots),
        table_version=plan.table.version,
        table_keys=len(plan.table.explicit_hashes),
        split_keys=len(plan.table.split),
        state_keys=sum(each.rows for each in record.channels.values()),
        state_bytes=sum(each.bytes for each in record.channels.values()),
        watermark_ms=record.watermark_ms,
        channel_found=tuple(found),
        homes=len(ran.work.homes),
        seconds=batch.watch.seconds,
        time_ms=batch.clock.processing_time_ms,
        cores=batch.jobs.cores,
        measured=ran.measured and not workers,
        move_seconds=max((report.move_seconds for report in reports.values()), default=0.0),
        reason=plan.reason,
        left=_moves_made(plan.left, names),
        left_moves=len(plan.left),
    )


def _as_text(report: Report, names: Mapping[int, str], slots: int) -> dict[str, Any]:
    """Return a planner's report with keys by their values; what has no name stands for all light keys of a slot."""
    heavy = [names.get(key, f"slot {key % slots}") for key in report.unsplittable]
    return {**asdict(report), "unsplittable": heavy}


def _all_names(batch: Batch, ran: Ran) -> dict[int, str]:
    """Return all keys that the table, the counts or the channels know, as people read them."""
    counted, told = ran.counted, ran.statistics
    names = {**batch.before.table.names}
    names |= dict(zip(counted.hashes.tolist(), counted.names.to_pylist(), strict=True))
    if told.keys is not None:
        pairs = zip(told.hashes.tolist(), told.keys.to_pylist(), strict=True)
        names |= {key: text for key, text in pairs if text is not None}
    return names


def _hot_keys(ran: Ran, names: Mapping[int, str]) -> tuple[HotKey, ...]:
    """Return the heaviest keys, by seconds where they were measured, else by rows."""
    told = ran.statistics
    weight, total = (told.cost, told.total_cost) if ran.measured else (told.tuples, told.total_tuples)
    if total <= 0:
        return ()
    heaviest = np.argsort(-weight, kind="stable")[: min(HOT_KEYS, np.count_nonzero(weight))]
    hashes = told.hashes[heaviest]
    return tuple(
        HotKey(names.get(key, str(key)), float(share / total), int(channel))
        for key, share, channel in zip(hashes.tolist(), weight[heaviest], ran.plan.table.lookup(hashes), strict=True)
    )


def _moves_made(moves: Moves, names: Mapping[int, str]) -> tuple[MoveMade, ...]:
    """Return the first moves, with the values of the keys where those are known."""
    return tuple(
        MoveMade(
            move.kind,
            names.get(move.id, str(move.id)) if move.kind == "key" else str(move.id),
            move.source,
            move.target,
        )
        for move in islice(moves, MOVES_LISTED)
    )
