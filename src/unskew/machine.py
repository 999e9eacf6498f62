"""Which code ran, and on which machine: a measurement means nothing without both."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from unskew import __version__
from unskew.packages import installed_version

KEY_PACKAGES = ("pyspark", "pyarrow", "numpy", "numba", "pandas", "polars", "bytewax")


def commit() -> str:
    """Return the commit of the running code, prefixed with ``dirty-`` if files have changed since.

    For an installed wheel this is the version of the package.
    """
    here = Path(__file__).resolve()
    try:
        _git(here.parent, "ls-files", "--error-unmatch", here.name)  # a wheel may lie inside somebody else's checkout
        revision = _git(here.parent, "rev-parse", "--short=12", "HEAD")
        changed = _git(here.parent, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return __version__
    return f"dirty-{revision}" if changed else revision


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=20, check=True)
    return done.stdout.strip()


def describe() -> dict[str, object]:
    """Return the cores, CPU, memory, operating system, Python, and the package versions that matter for speed."""
    return {
        "cores": cores(),
        "cpu": cpu_model(),
        "memory_bytes": memory_bytes(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: version for name in KEY_PACKAGES if (version := installed_version(name))},
    }


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_model() -> str:
    """Return the CPU's name as the operating system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def memory_bytes() -> int | None:
    """Return the machine's memory, or the container's limit if that is lower; None if unknown."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    try:
        return min(physical, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no such group, or "max"
        return physical
