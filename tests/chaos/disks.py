"""A small disk of its own for a checkpoint, which can be full or read-only. Needs the right to mount."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from chaos.run import Run

SIZE = "size=64m"
TRIES = 200


@cache
def can_mount() -> bool:
    """Tell whether this user may mount a disk in memory."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            mount(Path(folder))
        except (OSError, subprocess.CalledProcessError):
            return False
        unmount(Path(folder))
        return True


def mount(folder: Path) -> None:
    _run("mount", "-t", "tmpfs", "-o", SIZE, "tmpfs", str(folder))


def unmount(folder: Path) -> None:
    for _ in range(TRIES):
        if subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.05)
    _run("umount", "-l", str(folder))


def remount(folder: Path, how: str) -> None:
    """Mount a disk anew, read-only or not; files that are open for writing refuse it for a moment."""
    for _ in range(TRIES):
        command = ["mount", "-o", f"remount,{how},{SIZE}", str(folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.003)
    _run(*command)


@contextmanager
def mounted_checkpoint(run: Run) -> Iterator[Path]:
    """Move the checkpoint of a round to a disk of its own while its driver is down, and back at the end."""
    folder, aside = run.home / "checkpoint", run.home / "aside"
    run.kill_driver()
    folder.rename(aside)
    folder.mkdir()
    mount(folder)
    try:
        shutil.copytree(aside, folder, dirs_exist_ok=True)
        shutil.rmtree(aside)
        run.start()
        while not run.reached(0) and not run.ended():
            time.sleep(0.05)
        run.await_instant("work", run.dice.random(), hold=False)
        yield folder
    finally:
        shutil.copytree(folder, aside, dirs_exist_ok=True)
        unmount(folder)
        shutil.rmtree(folder)
        aside.rename(folder)


def fill(file: Path) -> None:
    """Write to a file until its disk is full."""
    with file.open("wb", buffering=0) as stream:
        size = 1 << 20
        while size:
            try:
                if stream.write(bytes(size)) < size:
                    size //= 2
            except OSError:
                size //= 2


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
