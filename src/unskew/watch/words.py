"""Batches in words: what is there at a glance, and why one batch was planned as it was."""

from __future__ import annotations

from datetime import UTC, datetime

from unskew.bars import counted, size
from unskew.runtime.decisions import decisions
from unskew.runtime.figures import BatchFigures, MoveMade
from unskew.runtime.planning import KEPT, NOT_WORTH_IT, RESIZED
from unskew.watch.series import Batches, saved_seconds, stage_seconds

RECENT = 20  # batches that "now" is about
NAMES_SHOWN = 12
WAYS = {
    "whole": "It was so small that it ran whole in one task, under the table of the batch before. Nothing was planned.",
    "direct": "It ran in one job, under the table at hand.",
    "empty": "It had no rows; only time passed.",
}


def duration(seconds: float) -> str:
    """Return a time as people read it.

    >>> duration(0.0123), duration(75), duration(-4000)
    ('12 ms', '1 min 15 s', '-1 h 6 min')
    """
    sign, seconds = "-" if seconds < 0 else "", abs(seconds)
    if seconds < 1:
        return f"{sign}{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{sign}{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{sign}{whole // 60} min {whole % 60} s"
    return f"{sign}{whole // 3600} h {whole % 3600 // 60} min"


def moment(time_ms: int) -> str:
    """Return a time of a record's clock.

    >>> moment(1_700_000_000_000)
    '2023-11-14 22:13:20 UTC'
    """
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def glance(batches: Batches) -> dict[str, tuple[str, str]]:
    """Return the figures at the top: a name, the value, and what it is made of."""
    last, recent = batches[-1], batches[-RECENT:]
    with_rows = next((batch for batch in reversed(batches) if batch.rows), last)
    seconds = sum(sum(stage_seconds(batch).values()) for batch in recent)
    rate = f"{sum(batch.rows for batch in recent) / seconds:,.0f}" if seconds else "0"
    shown = {
        "Time saved": _saved(batches),
        "Fullest channel": (f"{with_rows.imbalance:.2f} × mean", _hash(with_rows)),
        "Rows per second": (rate, f"{counted(with_rows.rows, 'row')} in batch {with_rows.batch_id}"),
        "State": (size(last.state_bytes), f"{counted(last.state_keys, 'key')} on {counted(last.channels, 'channel')}"),
        "Moves": (
            f"{sum(batch.moved_keys + batch.moved_slots for batch in batches):,}",
            f"{size(sum(batch.moved_bytes for batch in batches))} of state in {counted(len(batches), 'batch')}",
        ),
    }
    if last.watermark_ms is not None:
        late = f"{counted(sum(batch.late_rows for batch in batches), 'late row')}"
        shown["Watermark"] = (moment(last.watermark_ms).removesuffix(" UTC") if last.watermark_ms else "none yet", late)
    return shown


def _saved(batches: Batches) -> tuple[str, str]:
    """Return the time saved so far, an estimate, and beside it what counting and planning took."""
    compared = [batch for batch in batches if batch.hash_seconds is not None]
    if not compared:
        return "unknown", "no batch was compared with Spark's hash"
    extra = sum(batch.seconds.get("count", 0.0) + batch.seconds.get("plan", 0.0) for batch in compared)
    return duration(sum(map(saved_seconds, compared))), f"counting and planning took {duration(extra)}"


def _hash(batch: BatchFigures) -> str:
    if batch.hash_imbalance is None:
        return "not compared with Spark's hash"
    return f"{batch.hash_imbalance:.2f} under Spark's hash"


def why(batch: BatchFigures) -> list[str]:
    """Return the story of one batch, a sentence or two each: what came, what was planned and why, what came of it."""
    told = [f"{counted(batch.rows, 'row')} came at {moment(batch.time_ms)}. {_planned(batch)}"]
    if batch.moves:
        what = _both(batch.moved_keys, batch.moved_slots)
        told.append(f"{what} moved, with {size(batch.moved_bytes)} of state: {_listed(batch.moves)}.")
    if batch.left_moves:
        cause = "Not worth moving" if batch.reason == NOT_WORTH_IT else "To move in later batches (max_move_bytes)"
        told.append(f"{cause}: {_listed(batch.left)}.")
    heavy = batch.plan["unsplittable"] if batch.plan else ()
    if heavy:
        told.append(f"Too heavy for one channel: {', '.join(heavy[:5])}. Only splitting such a key helps.")
    if batch.rows:
        told.append(f"The fullest channel had {batch.imbalance:.2f} times the mean; {_hash(batch)}.")
    seconds = stage_seconds(batch)
    spent = ", ".join(f"{stage} {duration(each)}" for stage, each in seconds.items())
    told.append(f"It took {duration(sum(seconds.values()))}: {spent}.")
    return told


def _planned(batch: BatchFigures) -> str:
    if not batch.plan:
        return WAYS.get(batch.way, "Nothing was planned.")
    [decision] = decisions([batch])
    planned = (
        f"Under the table of the batch before, the fullest channel would have had {1 + decision.overload_before:.2f} "
        f"times the mean. "
    )
    after = f"{1 + decision.overload_after:.2f}"
    bound = f"No plan can go below {1 + decision.overload_bound:.2f} while keys are whole."
    if batch.reason == KEPT:
        return f"{planned}The planner {batch.planner} found nothing better. {bound}"
    if batch.reason == NOT_WORTH_IT:
        return f"{planned}The planner {batch.planner} could have brought it to {after}: too little to move state for."
    cause = f"There are {batch.channels} channels now. " if batch.reason == RESIZED else ""
    return f"{cause}{planned}The planner {batch.planner} brought it to {after}. {bound}"


def _both(keys: int, slots: int) -> str:
    parts = [counted(number, noun) for number, noun in ((keys, "key"), (slots, "slot")) if number]
    return " and ".join(parts)


def _listed(moves: tuple[MoveMade, ...]) -> str:
    """Return the first moves, keys before slots."""
    keys_first = sorted(moves, key=lambda move: move.kind != "key")
    shown = [
        f"{move.key if move.kind == 'key' else f'slot {move.key}'} {move.source} → {move.target}"
        for move in keys_first[:NAMES_SHOWN]
    ]
    return ", ".join([*shown, "..."] if len(moves) > NAMES_SHOWN else shown)
