"""What a Spark program takes from a Linux machine: memory, open files and processes, by who takes it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
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
    """What some processes take together.

    A page that several of them share counts in parts in `memory_bytes` (Linux calls this PSS), and once for each of
    them in `resident_bytes` (RSS). When forked processes write to pages that they shared, only the first grows.
    """

    memory_bytes: int = 0
    resident_bytes: int = 0
    open_files: int = 0
    processes: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.memory_bytes + other.memory_bytes,
            self.resident_bytes + other.resident_bytes,
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
            found[who] += Usage(*_memory(pid), sum(1 for _ in (PROC / str(pid) / "fd").iterdir()), 1)
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


def _memory(pid: int) -> tuple[int, int]:
    lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    found = {name: int(text.split()[0]) for name, _, text in (line.partition(":") for line in lines) if "kB" in text}
    return 1024 * found.get("Pss", 0), 1024 * found.get("Rss", 0)


def native_memory() -> dict[str, int]:
    """Return how many bytes the JVM of this program counts itself, by what they are for; nothing without ``jcmd``.

    The JVM must run with ``-XX:NativeMemoryTracking=summary``.
    """
    command, found = shutil.which("jcmd"), dict[str, int]()
    for pid in family(os.getpid()) if command else ():
        with suppress(OSError):
            if (PROC / str(pid) / "comm").read_text().strip() == "java":
                asked = [str(command), str(pid), "VM.native_memory", "summary"]
                told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
                for kind, size in re.findall(r"-\s+(.+?) \(reserved=\d+KB, committed=(\d+)KB", told):
                    found[kind] = found.get(kind, 0) + 1024 * int(size)
    return found


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
