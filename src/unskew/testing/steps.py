"""Events between two batches, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.errors import ArgumentError, ColumnError, require_list, require_number
from unskew.routing.table import MOST_SLOTS


@dataclass(frozen=True)
class ABORT:
    """The next batch fails at a random instant, before or after some of its channels commit, and runs again."""


@dataclass(frozen=True)
class RESTART:
    """Everything but the store is lost: processes, memory, local copies."""


@dataclass(frozen=True)
class MOVE:
    """A key changes its channel before the next batch."""

    key: Any  # a tuple of values if the key has several columns
    to: int


@dataclass(frozen=True)
class MOVE_SLOT:  # noqa: N801
    """All keys of a slot without an entry of their own change their channel before the next batch."""

    slot: int
    to: int


@dataclass(frozen=True)
class ADVANCE:
    """Time passes before the next batch, for the clock and the watermark."""

    milliseconds: int


Event = ABORT | RESTART | MOVE | MOVE_SLOT | ADVANCE


def disturbed(
    batches: Sequence[pa.Table], *, key: str | Sequence[str], channels: int, slots: int = 64, seed: int = 0
) -> list[pa.Table | Event]:
    """Return the batches with random moves, aborts and restarts between them."""
    names = (key,) if isinstance(key, str) else require_list("key", key)
    require_number("channels", channels, 1, MOST_SLOTS)
    require_number("slots", slots, 1, MOST_SLOTS)
    require_number("seed", seed, 0)
    random, steps = np.random.default_rng(seed), list[pa.Table | Event]()
    for batch in require_list("batches", batches):
        if not isinstance(batch, pa.Table):
            raise ArgumentError("a batch is an Arrow table", got=batch)
        if missing := [name for name in names if name not in batch.column_names]:
            raise ColumnError("there is no column of that name", got=missing[0], hint=f"one of {batch.column_names}")
        if batch.num_rows and channels > 1:
            for row in random.integers(batch.num_rows, size=random.integers(1, 4)).tolist():
                values = tuple(batch.column(name)[row].as_py() for name in names)
                steps.append(MOVE(values, int(random.integers(channels))))
            if random.random() < 0.3:
                steps.append(MOVE_SLOT(int(random.integers(slots)), int(random.integers(channels))))
        steps.extend(event for event, share in ((ABORT(), 0.3), (RESTART(), 0.1)) if random.random() < share)
        steps.append(batch)
    return steps
