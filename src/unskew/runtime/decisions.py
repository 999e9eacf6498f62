"""What was decided in each batch, and whether it did what it promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unskew.runtime.figures import BatchFigures


@dataclass(frozen=True)
class Decision:
    """One plan, and what came of it. Overload is max/mean - 1 of the channels' load; a gain is what it falls by."""

    batch_id: int
    time_ms: int
    reason: str  # "planned", "kept" (nothing better was found), "not worth it", "resized"
    planner: str
    overload_before: float  # of this batch under the table of the batch before
    overload_after: float  # as planned
    overload_bound: float  # no plan can do better while keys are whole
    overload_measured: float  # in this batch, after its work
    moved_keys: int
    moved_slots: int
    moved_bytes: int
    left_moves: int  # what the planner wanted to move and stayed
    cost_seconds: float  # planning, and taking in and giving away state
    gain_planned: float
    gain_measured: float  # in this batch
    gain_next: float | None  # in the next batch with rows, before it was planned itself; None if there is none yet
    gained_seconds: float  # `gain_measured` of this batch's work


def decisions(batches: Sequence[BatchFigures]) -> list[Decision]:
    """Return the plans among some batches of a query, which are in order."""
    made, met = list[Decision](), None
    for batch in reversed(batches):
        if batch.plan is not None:
            made.append(_decision(batch, batch.plan["overload_before"], met))
        if batch.rows:
            met = batch.imbalance - 1 if batch.plan is None else float(batch.plan["overload_before"])
    return made[::-1]


def _decision(batch: BatchFigures, before: float, next_overload: float | None) -> Decision:
    plan, measured = batch.plan or {}, batch.imbalance - 1
    mean_seconds = sum(batch.channel_seconds) / max(batch.channels, 1)
    return Decision(
        batch_id=batch.batch_id,
        time_ms=batch.time_ms,
        reason=batch.reason,
        planner=str(batch.planner),
        overload_before=before,
        overload_after=plan["overload_after"],
        overload_bound=plan["overload_bound"],
        overload_measured=measured,
        moved_keys=batch.moved_keys,
        moved_slots=batch.moved_slots,
        moved_bytes=batch.moved_bytes,
        left_moves=batch.left_moves,
        cost_seconds=batch.planning_seconds + batch.move_seconds,
        gain_planned=before - plan["overload_after"],
        gain_measured=before - measured,
        gain_next=None if next_overload is None else before - next_overload,
        gained_seconds=(before - measured) * mean_seconds,
    )
