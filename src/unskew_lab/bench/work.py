"""Work that a row stands for: time spent waiting or computing."""

from __future__ import annotations

import time
from typing import Literal

import numpy as np

Kind = Literal["wait", "cpu"]

_NUMBERS = np.arange(2_000, dtype=np.float64)[::-1].copy()


def spend(seconds: float, kind: Kind) -> None:
    """Let time pass: waiting, which holds no core, or computing, which holds one for so many seconds of its time."""
    if kind == "wait":
        time.sleep(seconds)
        return
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        np.sort(_NUMBERS)
