"""A made-up history: a drifting hot key on eight channels, as a real query would have written it."""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from unskew.runtime.figures import BatchFigures, HotKey, MoveMade
from unskew.runtime.history import BATCHES_PER_FILE, file_of

CHANNELS = 8
NOON = 1_790_000_000_000
PLAN: dict[str, Any] = {
    "planner": "mixed", "channels": CHANNELS, "overload_before": 0.85, "overload_after": 0.02, "deviation_after": 0.02,
    "migration_cost": 900.0, "migration_share": 0.01, "moved_keys": 2, "table_size": 4, "forced": 0,
    "overload_bound": 0.0, "lower_bound": 1.0, "unsplittable": [], "notes": [], "seconds": 0.004,
}  # fmt: skip


def batch(number: int, **changes: Any) -> BatchFigures:
    """Return the figures of a batch; other hot keys come every 20 batches, and then keys move."""
    rng = np.random.default_rng(number)
    seconds = 2.0 * rng.uniform(0.95, 1.02, CHANNELS)
    rows = rng.integers(1200, 1300, CHANNELS)
    era, moving = number // 20, number % 20 == 0
    hot = [HotKey(f"user-{(7 * era + i) % 40}", 0.16 / (i + 1), (era + i) % CHANNELS) for i in range(5)]
    moves = [MoveMade("key", hot[i].key, (era + 3 * i) % CHANNELS, (era + i + 1) % CHANNELS) for i in range(2)]
    moves += [MoveMade("slot", str(17 * i + era), i % CHANNELS, (i + era + 2) % CHANNELS) for i in range(6)]
    hash_imbalance = float(rng.uniform(1.6, 2.3))
    made = BatchFigures(
        batch_id=number, way="counted", channels=CHANNELS, tasks=CHANNELS, rows=int(rows.sum()),
        late_rows=int(rng.poisson(3)), imbalance=float(seconds.max() / seconds.mean()), hash_imbalance=hash_imbalance,
        busiest_seconds=float(seconds.max()), hash_seconds=float(seconds.mean() * hash_imbalance),
        channel_rows=tuple(rows.tolist()), channel_seconds=tuple(seconds.tolist()),
        channel_keys=(125,) * CHANNELS, channel_bytes=tuple((9000 + 40 * number + 300 * np.arange(CHANNELS)).tolist()),
        channel_spilled=(0,) * CHANNELS, hot_keys=tuple(hot), moves=tuple(moves) if moving else (),
        moved_keys=2 * moving, moved_slots=6 * moving, moved_bytes=5200 * moving, planner="mixed",
        planning_seconds=0.004, plan=PLAN if moving else {**PLAN, "overload_before": 0.025, "overload_after": 0.02},
        table_version=era, table_keys=4, split_keys=0, state_keys=1000, state_bytes=80_000 + 320 * number,
        watermark_ms=NOON + 10_000 * (number - 6), channel_found=("copy",) * CHANNELS, homes=0,
        seconds={"count": 0.2, "plan": 0.01, "work": 2.1, "record": 0.02, "sink": 0.15, "commit": 0.01},
        time_ms=NOON + 10_000 * number, cores=CHANNELS, measured=True, move_seconds=0.003 * moving,
        reason="planned" if moving else "not worth it", left=() if moving else tuple(moves[:1]), left_moves=1 - moving,
    )  # fmt: skip
    return replace(made, **changes)


def line(figures: BatchFigures) -> bytes:
    return gzip.compress(f"{json.dumps(asdict(figures))}\n".encode(), 6, mtime=0)


def write_history(checkpoint: Path, batches: list[BatchFigures]) -> Path:
    """Write the history of a query, as if it had run all these batches."""
    own = checkpoint / "unskew"
    files: dict[int, list[BatchFigures]] = {}
    for each in batches:
        files.setdefault(each.batch_id // BATCHES_PER_FILE, []).append(each)
    (own / "history").mkdir(parents=True, exist_ok=True)
    for number, some in files.items():
        (own / file_of(number)).write_bytes(b"".join(map(line, some)))
    return checkpoint
