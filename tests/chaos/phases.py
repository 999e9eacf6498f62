"""Where a batch is, told by the driver as it goes; and a hold at instants too short to be hit otherwise.

Wraps methods of the driver only, and adds a few microseconds to a batch. What tasks run is untouched.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from unskew.runtime.engine import Engine
from unskew.runtime.log import RecordLog
from unskew.spark.callback import Callback
from unskew.spark.jobs import SparkJobs
from unskew.state import local_disk

PHASES = ("count", "work", "record", "sink", "commit", "handover")
"""Handover is what comes between our commit and Spark's."""

HELD = ("record", "record-linked", "sink", "commit", "commit-linked", "handover")
"""Instants at which a driver can be held: before a record or mark is written, when it has its name but is not yet known
to be durable, and after it is complete."""

LONGEST_HOLD_SECONDS = 60.0


class Teller:
    """Writes a line to ``phases`` whenever a batch enters a phase, and waits while ``hold`` names that instant."""

    def __init__(self, home: Path) -> None:
        self.hold = home / "hold"
        self.file = os.open(home / "phases", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.batch = -1

    def tell(self, instant: str) -> None:
        os.write(self.file, f"{time.monotonic():.6f} {os.getpid()} {self.batch} {instant}\n".encode())
        try:
            wanted = self.hold.read_text()
        except FileNotFoundError:
            return
        if wanted != instant:
            return
        self.hold.unlink(missing_ok=True)
        os.write(self.file, f"{time.monotonic():.6f} {os.getpid()} {self.batch} held\n".encode())
        time.sleep(LONGEST_HOLD_SECONDS)  # somebody is about to kill us, or to pause us

    def install(self) -> None:
        """Tell of every batch from now on."""

        def begin(callback: Any, rows: Any, batch_id: int) -> None:
            self.batch = batch_id

        _before(Callback, "__call__", begin, lambda *_: self.tell("count"))
        for name in ("work", "direct", "whole", "errands"):
            _before(SparkJobs, name, lambda *_: self.tell("work"))
        _before(RecordLog, "prepare", lambda *_: self.tell("record"))
        _before(Engine, "_finish", lambda *_: self.tell("sink"))
        _before(RecordLog, "commit", lambda *_: self.tell("commit"))
        sync = local_disk._sync_folder

        def synced(folder: Path) -> None:
            instant = {"prepared": "record-linked", "commit": "commit-linked"}.get(folder.name)
            if instant and (folder / str(self.batch)).exists():
                self.tell(instant)
            sync(folder)

        local_disk._sync_folder = synced
        call = Callback.__call__

        def called(callback: Any, rows: Any, batch_id: int) -> None:
            call(callback, rows, batch_id)
            self.tell("handover")

        Callback.__call__ = called  # type: ignore[method-assign]


def _before(owner: type, name: str, *first: Callable[..., None]) -> None:
    method = getattr(owner, name)

    @wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        for each in first:
            each(*args, **kwargs)
        return method(*args, **kwargs)

    setattr(owner, name, wrapped)
