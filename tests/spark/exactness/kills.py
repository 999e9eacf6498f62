"""Starting a job, killing parts of it for real, and starting it again until it ends."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from chaos.processes import kill_all, kill_one, start
from unskew.testing import write_batches

JOB = Path(__file__).parent / "job.py"
LONGEST_RUN_SECONDS = 800


@dataclass(frozen=True)
class Schedule:
    """What is killed, and when: victims by the number of batches that are committed by then.

    Parameters
    ----------
    seed
        Of the moves, the data, and the instants within a batch.
    victims
        Pairs of batch and ``"driver"``, ``"executor"`` or ``"worker"``.
    master, arguments
        How the job is started.
    """

    seed: int
    victims: tuple[tuple[int, str], ...]
    master: str = "local[2,4]"
    arguments: tuple[str, ...] = ()


def write_data(home: Path, seed: int, batches: int, rows: int = 3000, zipf: float = 1.3, drift: int = 0) -> Counter:
    """Write one file per batch, with other hot keys after every second one if there is a `drift`; return the truth.

    Each file is a source of its own, within which order is checked: when a driver dies between two logs of Spark's,
    the next batch has two files, which Spark reads in any order.
    """
    rng = np.random.default_rng(seed)
    truth: Counter = Counter()
    tables = []
    for batch in range(batches):
        keys = [None if k == 7 else f"k{k}" for k in (rng.zipf(zipf, rows) + drift * (batch // 2)) % 400]
        truth.update(keys)
        sequence = np.arange(rows) + batch * rows
        columns = {"key": pa.array(keys, pa.string()), "source": np.full(rows, batch), "sequence": sequence}
        tables.append(pa.table(columns))
    write_batches(home / "data", tables)
    return truth


def run_to_the_end(home: Path, schedule: Schedule) -> list[str]:
    """Run the job, kill according to schedule, start it again whenever it died; return what happened."""
    dice, waiting, story = random.Random(schedule.seed), sorted(schedule.victims), []
    started = time.monotonic()
    while True:
        job = _start(home, schedule)
        while job.poll() is None:
            if time.monotonic() - started > LONGEST_RUN_SECONDS:
                kill_all(job.pid)
                raise AssertionError(f"the job did not end: {story}\n{(home / 'log').read_text()[-3000:]}")
            if waiting and _committed(home) >= waiting[0][0]:
                _, victim = waiting.pop(0)
                time.sleep(dice.uniform(0, longest_wait(home / "checkpoint" / "commits")))
                story.append(_strike(job.pid, victim, dice))
            time.sleep(0.05)
        if job.returncode == 0:
            return [*story, f"ended, {len(waiting)} victims left"]
        story.append(f"exit {job.returncode} after batch {_committed(home)}")
        if job.returncode != -signal.SIGKILL and len(story) > 3 * len(schedule.victims) + 3:
            raise AssertionError(f"the job keeps failing: {story}\n{(home / 'log').read_text()[-3000:]}")


def run_queries(job: Path, home: Path, how: str, names: tuple[str, ...], most: int, kill: bool) -> dict[str, int]:
    """Run a job of several queries until it ends by itself, killed once in each; return the batches each had then.

    Parameters
    ----------
    job, home, how
        The script, its folder, and the word that it takes after the folder.
    names
        Its queries, in order.
    most
        Batches after which a query is killed, at most.
    kill
        Whether to kill it at all.
    """
    dice, spared, killed = random.Random(1), list(names) if kill else [], dict[str, int]()
    while True:
        process = start(job, str(home), how, *names, log=home / "log")
        wanted = dice.randint(1, most) if kill else 0
        while process.poll() is None:
            if spared and committed(home, spared[0]) >= wanted:
                time.sleep(dice.uniform(0, longest_wait(home / "checkpoints" / spared[0] / "commits")))
                kill_all(process.pid)
                process.wait()
                killed[spared[0]] = committed(home, spared[0])
                del spared[0]
            time.sleep(0.1)
        if process.returncode == 0:
            return killed
        assert process.returncode == -signal.SIGKILL, (home / "log").read_text()[-3000:]


def committed(home: Path, name: str) -> int:
    """Return how many batches a query of several has committed."""
    return sum(path.name.isdigit() for path in (home / "checkpoints" / name / "commits").glob("*"))


def longest_wait(commits: Path) -> float:
    """Return seconds in which a query commits two batches at most, so that quick ones do not end before a kill."""
    times = sorted(path.stat().st_mtime for path in commits.glob("*") if path.name.isdigit())
    return min(1.5, 2 * (times[-1] - times[-2])) if len(times) > 1 else 1.5


def _start(home: Path, schedule: Schedule) -> subprocess.Popen[bytes]:
    arguments = [str(home), "--master", schedule.master, "--seed", str(schedule.seed), *schedule.arguments]
    return start(JOB, *arguments, log=home / "log")


def _committed(home: Path) -> int:
    """Return the last batch that is committed; batches of a second stage count on."""
    names = [p.name for stage in ("checkpoint", "second-checkpoint") for p in (home / stage / "commits").glob("*")]
    return sum(name.isdigit() for name in names) - 1


def _strike(job: int, victim: str, dice: random.Random) -> str:
    if victim == "driver":
        kill_all(job)
        return "killed the driver"
    return f"found no {victim}" if kill_one(job, victim, dice) is None else f"killed a {victim}"
