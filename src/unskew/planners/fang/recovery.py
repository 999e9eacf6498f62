"""From planned records back to keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unskew.planners.fang.records import Records
from unskew.planners.problem import Channels, Column

Rows = NDArray[np.int64]


def recover_owners(planned: Records, source: Rows, record_of: Rows, rank: Column, current: Channels) -> Channels:
    """Choose which keys move: of the keys that a record stands for, those first in rank order.

    Works on all keys or on those of one channel. Where a record's keys go to several channels, they are dealt out in
    ascending order of the channels; ties in rank go to the lower key.

    `source` is the row that each planned record had before planning (see `Records.find`), `record_of` the row before
    planning that stands for each key. Keys rank by their true values, highest first.
    """
    moved = np.flatnonzero(planned.next != planned.current)
    moves, row = planned.take(moved), source[moved]
    order = np.lexsort((moves.next, row))
    rows = max(int(record_of.max(initial=-1)), int(row.max(initial=-1))) + 1
    leaving = np.bincount(row, moves.copies, rows).astype(np.int64)
    targets = np.repeat(moves.next[order], moves.copies[order])
    first_target = np.cumsum(leaving) - leaving
    keys = np.flatnonzero(leaving[record_of] > 0)
    keys = keys[np.lexsort((keys, -rank[keys], record_of[keys]))]
    record = record_of[keys]
    held = np.bincount(record, minlength=rows)
    place = np.arange(len(keys)) - (np.cumsum(held) - held)[record]
    chosen = place < leaving[record]
    owner = current.copy()
    owner[keys[chosen]] = targets[(first_target[record] + place)[chosen]]
    return owner


def load_error(estimated: Column, true: Column) -> float:
    """Return the largest relative error of the estimated loads.

    >>> load_error(np.array([9.0, 10.0]), np.array([10.0, 10.0]))
    0.1
    """
    loaded = true > 0
    return float((np.abs(true - estimated)[loaded] / true[loaded]).max(initial=0.0))
