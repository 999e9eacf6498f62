"""What calls take by themselves, on a machine whose cores other tasks share."""

from __future__ import annotations

from pathlib import Path
from time import thread_time

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]

_SCHEDULING = Path("/proc/thread-self/schedstat")
"""Linux: nanoseconds that this thread has run, and that it has waited for a core."""


class Demand:
    """Takes out of measured times what a thread has waited for a core.

    Where more tasks run than there are cores, a call's time on the clock says more about the other tasks than about the
    key. What a call waits for otherwise (a service, a disk) stays in. The time that the thread has queued for a core is
    known for all calls together; each gets its part by the processor time that it used. Without Linux' figures times
    stay as they were measured.
    """

    def __init__(self) -> None:
        self._ran, self._queued = thread_time(), _queued_seconds()

    def of_calls(self, seconds: Seconds, processor_seconds: Seconds) -> Seconds:
        """Return what each call took by itself.

        Parameters
        ----------
        seconds
            Measured on the clock, since this object was made.
        processor_seconds
            What each call used of the processor.
        """
        ran, queued = thread_time() - self._ran, _queued_seconds() - self._queued
        waited = queued * processor_seconds / max(ran, 1e-9)
        return np.maximum(seconds - waited, np.minimum(processor_seconds, seconds))


def _queued_seconds() -> float:
    try:
        return int(_SCHEDULING.read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
