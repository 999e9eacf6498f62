"""A query's batches as columns to plot. Plain Python values, so that nothing here needs a browser to be tested."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from unskew.runtime.figures import BatchFigures

MOST_POINTS = 300  # more batches than this share points
KEYS_SHOWN = 6
FLOWS_SHOWN = 24
STATE_SOUGHT = 500
STAGES = ("count", "plan", "work", "sink", "commit")

Batches = Sequence[BatchFigures]
Columns = dict[str, list[Any]]


def stage_seconds(batch: BatchFigures) -> dict[str, float]:
    """Return where the batch's time went; writing the record is part of the commit."""
    seconds = {stage: batch.seconds.get(stage, 0.0) for stage in STAGES}
    seconds["commit"] += batch.seconds.get("record", 0.0)
    return seconds


def saved_seconds(batch: BatchFigures) -> float:
    """Return by how much Spark's hash would have made the batch's work longer; 0 where it is not known.

    Work takes as long as the fullest channel, but no less than all of it shared by the tasks that ran at once. A batch
    in one task therefore saves nothing.
    """
    if batch.hash_seconds is None:
        return 0.0
    shared = sum(batch.channel_seconds) / max(min(batch.cores, batch.tasks), 1)
    return max(batch.hash_seconds, shared) - max(batch.busiest_seconds, shared)


def points(batches: Batches) -> list[Batches]:
    """Return the batches in runs of equal length, at most `MOST_POINTS` of them."""
    length = -(-len(batches) // MOST_POINTS) or 1
    return [batches[start : start + length] for start in range(0, len(batches), length)]


def over_time(batches: Batches) -> Columns:
    """Return one row per point: means of balance and time, sums of rows and moves. ``batch`` is its worst batch."""
    saved, rows = 0.0, list[dict[str, Any]]()
    for run in points(batches):
        worst, last = max(run, key=lambda batch: batch.imbalance), run[-1]
        with_rows = [batch for batch in run if batch.rows] or [worst]
        compared = [batch.hash_imbalance for batch in with_rows if batch.hash_imbalance is not None]
        stages = [stage_seconds(batch) for batch in run]
        seconds = sum(sum(each.values()) for each in stages)
        saved += sum(map(saved_seconds, run))
        rows.append(
            {
                "batch": worst.batch_id,
                "span": str(last.batch_id) if len(run) == 1 else f"{run[0].batch_id} to {last.batch_id}",
                "here": fmean(batch.imbalance for batch in with_rows),
                "hash": fmean(compared) if compared else None,
                **{stage: fmean(each[stage] for each in stages) for stage in STAGES},
                "rows_per_second": sum(batch.rows for batch in run) / seconds if seconds else None,
                "late": sum(batch.late_rows for batch in run),
                "watermark": last.watermark_ms or None,
                "moves": sum(batch.moved_keys + batch.moved_slots for batch in run),
                "saved": saved,
            }
        )
    names = ["batch", "span", "here", "hash", *STAGES, "rows_per_second", "late", "watermark", "moves", "saved"]
    return {name: [row[name] for row in rows] for name in names}


def hot_keys(batches: Batches) -> dict[str, list[float | None]]:
    """Return the share of the heaviest keys at each point, None where a key was not among the heaviest of any batch."""
    runs, weight = points(batches), defaultdict[str, float](float)
    for batch in batches:
        for hot in batch.hot_keys:
            weight[hot.key] += hot.share * batch.rows
    shown = dict[str, list[float | None]]()
    for key in sorted(weight, key=lambda key: -weight[key])[:KEYS_SHOWN]:
        shares = [[hot.share for batch in run for hot in batch.hot_keys if hot.key == key] for run in runs]
        shown[key] = [fmean(each) if each else None for each in shares]
    return shown


def loads(batch: BatchFigures) -> Columns:
    """Return the load of each channel, in seconds where the operator measures them, else in rows."""
    values = batch.channel_seconds if batch.measured else batch.channel_rows
    return {"channel": list(range(len(values))), "load": list(values)}


def levels(batch: BatchFigures) -> tuple[float, float | None]:
    """Return the mean load of the channels, and the load of the fullest one under Spark's hash if that is known."""
    values = batch.channel_seconds if batch.measured else batch.channel_rows
    mean = sum(values) / max(batch.channels, 1)
    return mean, None if batch.hash_imbalance is None else batch.hash_imbalance * mean


def states(batches: Batches) -> Columns:
    """Return the state of each channel after the last of some batches. A channel that was not called keeps its state.

    A channel that none of the last `STATE_SOUGHT` batches called is left out: nobody has told how much it holds.
    """
    channels, known = batches[-1].channels if batches else 0, dict[int, int]()
    for batch in reversed(batches[-STATE_SOUGHT:]):
        for channel, size in enumerate(batch.channel_bytes[:channels]):
            if size >= 0:
                known.setdefault(channel, size)
        if len(known) == channels:
            break
    return {"channel": sorted(known), "bytes": [known[channel] for channel in sorted(known)]}


def flows(batches: Batches) -> Columns:
    """Return how many keys and slots went from which channel to which, the largest flows first, with some names."""
    count, names = Counter[tuple[int, int]](), dict[tuple[int, int], list[str]]()
    for batch in batches:
        for move in batch.moves:
            way = (move.source, move.target)
            count[way] += 1
            named = names.setdefault(way, [])
            name = move.key if move.kind == "key" else f"slot {move.key}"
            if len(named) < 5 and name not in named:
                named.append(name)
    largest = count.most_common(FLOWS_SHOWN)
    return {
        "source": [source for (source, _), _ in largest],
        "target": [target for (_, target), _ in largest],
        "moves": [moves for _, moves in largest],
        "names": [", ".join(names[way]) for way, _ in largest],
    }
