"""What calls take by themselves, while other processes take the cores away."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from unskew.spark.per_key import calls
from unskew.spark.per_key.calls import Demand


def test_what_a_thread_queued_for_a_core_is_shared_out_by_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    queued, ran = iter([10.0, 13.0]), iter([5.0, 7.0])
    monkeypatch.setattr(calls, "_queued_seconds", lambda: next(queued))
    monkeypatch.setattr(calls, "thread_time", lambda: next(ran))
    taken = Demand().of_calls(np.array([4.0, 2.0, 1.0]), np.array([1.5, 0.5, 0.0]))
    assert taken.tolist() == [1.75, 1.25, 1.0], "three seconds queued for two of work; the third call only slept"


@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="only Linux tells")
def test_linux_tells_how_long_a_thread_has_queued_on_a_crowded_machine() -> None:
    crowd = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 2))]
    try:
        before, give_up = calls._queued_seconds(), time.monotonic() + 60
        while calls._queued_seconds() < before + 0.05:
            assert time.monotonic() < give_up, "no time in the queue, beside twice as many busy processes as cores"
    finally:
        for each in crowd:
            each.kill()
            each.wait()
