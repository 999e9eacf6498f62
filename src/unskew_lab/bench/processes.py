"""What a Spark program takes from a Linux machine: memory, open files and processes, by who takes it."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from unskew.errors import SessionError

DRIVER, JVM, WORKERS = "driver", "JVM", "workers"
PROC = Path("/proc")


@dataclass(frozen=True)
class Usage:
    """What some processes take together. A page that several of them share counts in parts (Linux calls this PSS)."""

    memory_bytes: int = 0
    open_files: int = 0
    processes: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.memory_bytes + other.memory_bytes,
            self.open_files + other.open_files,
            self.processes + other.processes,
        )


def check_linux() -> None:
    """Raise `SessionError` where processes cannot be looked at."""
    if not (PROC / "self" / "smaps_rollup").exists():
        raise SessionError("memory by process is only known on Linux", where=str(PROC), hint="run it in a container")


def usage(root: int | None = None) -> dict[str, Usage]:
    """Return what a program and all that it has started take: the driver's Python, the JVM, and Python workers."""
    root = os.getpid() if root is None else root
    found = dict.fromkeys((DRIVER, JVM, WORKERS), Usage())
    for pid in family(root):
        with suppress(OSError):  # it has just ended
            name = (PROC / str(pid) / "comm").read_text().strip()
            who = DRIVER if pid == root else JVM if name == "java" else WORKERS
            found[who] += Usage(_memory(pid), sum(1 for _ in (PROC / str(pid) / "fd").iterdir()), 1)
    return found


def family(root: int) -> list[int]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in PROC.iterdir():
        with suppress(OSError, ValueError):
            pid = int(entry.name)
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children[parent].append(pid)
    found = [root]
    for pid in found:
        found += children[pid]
    return found


def _memory(pid: int) -> int:
    lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def files_below(folder: Path) -> tuple[int, int]:
    """Return how many files there are below a folder, and their bytes; files may come and go meanwhile."""
    count = size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += Path(place, name).lstat().st_size
                count += 1
    return count, size


class Peak(threading.Thread):
    """Looks at this program's memory once a second while its block runs, and keeps the most that each took."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes = dict.fromkeys((DRIVER, JVM, WORKERS), 0)
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(1.0):
            for who, taken in usage().items():
                self.bytes[who] = max(self.bytes[who], taken.memory_bytes)

    def __enter__(self) -> Peak:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self.join()
