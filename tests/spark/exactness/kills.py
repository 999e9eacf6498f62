"""Starting a job, killing parts of it for real, starting it again, and checking what it wrote."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark

from unskew.testing import write_batches

JOB = Path(__file__).parent / "job.py"
LONGEST_RUN_SECONDS = 800
ARCHIVE = Path(tempfile.gettempdir()) / f"unskew-tests-{os.getuid()}-spark-{pyspark.__version__}.jsa"
START_AND_STOP = """
import sys
from unskew.spark.local_session import SHORT_RUN, session
options = f"{SHORT_RUN['spark.driver.extraJavaOptions']} -XX:ArchiveClassesAtExit={sys.argv[1]} -Xlog:disable"
spark = session("local[2,4]", {**SHORT_RUN, "spark.driver.extraJavaOptions": options})
spark.range(10).repartition(2).mapInArrow(lambda rows: rows, "id long").collect()
java = spark.sparkContext._gateway.proc
spark.stop()
java.stdin.close()
java.wait()
"""


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
                _kill(job.pid)
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
        with (home / "log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, str(job), str(home), how, *names],
                env=environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wanted = dice.randint(1, most) if kill else 0
        while process.poll() is None:
            if spared and committed(home, spared[0]) >= wanted:
                time.sleep(dice.uniform(0, longest_wait(home / "checkpoints" / spared[0] / "commits")))
                _kill(process.pid)
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


def check(home: Path, truth: Counter, ordered: bool = True) -> None:
    """Check every row that was written: counts, order, and the chain of secrets through all batches."""
    rows: list[dict] = []
    for folder in sorted((home / "out").glob("batch_id=*"), key=lambda path: int(path.name.split("=")[1])):
        rows += [{**row, "batch": folder.name} for row in pq.read_table(folder, partitioning=None).to_pylist()]
    count: dict = {}
    secret: dict = {}
    for row in rows:
        key = row["key"]
        assert row["old_secret"] == secret.get(key), f"the chain of {key!r} breaks in {row}"
        assert row["rows"] > count.get(key, 0), f"the count of {key!r} does not grow in {row}"
        if ordered:
            assert row["disorder"] == 0, f"rows of {key!r} came out of order in {row}"
        count[key], secret[key] = row["rows"], row["secret"]
    assert count == truth


def check_second_stage(home: Path) -> None:
    """Check that the second stage has seen every row of the first one's output once."""
    times, most, last = Counter(), {}, {}
    for folder in (home / "out").glob("batch_id=*"):
        for row in pq.read_table(folder, partitioning=None).to_pylist():
            times[row["key"]] += 1
            most[row["key"]] = max(most.get(row["key"], 0), row["rows"])
    for folder in sorted((home / "second-out").glob("batch_id=*"), key=lambda path: int(path.name.split("=")[1])):
        last |= {row["key"]: row for row in pq.read_table(folder, partitioning=None).to_pylist()}
    assert {key: row["times"] for key, row in last.items()} == times
    assert {key: row["most"] for key, row in last.items()} == most


def check_totals(home: Path) -> None:
    """Check every row of running totals: each batch's are those of all files up to the latest that it has read."""
    assert (home / "split").exists(), "no key was split, so nothing was tested"
    files = [pq.read_table(path).to_pylist() for path in sorted((home / "data").iterdir())]
    truth, read = defaultdict(lambda: [0, 0]), 0
    for folder in sorted((home / "out").glob("batch_id=*"), key=lambda path: int(path.name.split("=")[1])):
        rows = pq.read_table(folder, partitioning=None).to_pylist()
        latest, touched = max(row["latest"] for row in rows), set()
        for row in [row for file in files[read : latest + 1] for row in file]:
            truth[row["key"]][0] += 1
            truth[row["key"]][1] += row["sequence"]
            touched.add(row["key"])
        read = latest + 1
        assert len(rows) == len(touched), f"a row for every key of {folder.name}"
        for row in rows:
            assert [row["rows"], row["total"]] == truth[row["key"]], f"{row} in {folder.name}"
    assert read == len(files)


def archive_classes() -> None:
    """Keep the classes that Spark loads for jobs that start later: they then start in two thirds of the time."""
    with ARCHIVE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ARCHIVE.exists():
            new = ARCHIVE.with_suffix(".new")
            subprocess.run([sys.executable, "-c", START_AND_STOP, str(new)], check=True)
            new.rename(ARCHIVE)


def environment() -> dict[str, str]:
    """Return the environment of a job, with archived classes if there are any; Java ignores what does not fit."""
    options = {"JDK_JAVA_OPTIONS": f"-XX:SharedArchiveFile={ARCHIVE} -Xlog:disable"} if ARCHIVE.exists() else {}
    return os.environ | options


def _start(home: Path, schedule: Schedule) -> subprocess.Popen:
    command = [sys.executable, str(JOB), str(home), "--master", schedule.master, "--seed", str(schedule.seed)]
    with (home / "log").open("a") as log:
        return subprocess.Popen(
            [*command, *schedule.arguments], env=environment(), stdout=log, stderr=log, start_new_session=True
        )


def _committed(home: Path) -> int:
    """Return the last batch that is committed; batches of a second stage count on."""
    names = [p.name for stage in ("checkpoint", "second-checkpoint") for p in (home / stage / "commits").glob("*")]
    return sum(name.isdigit() for name in names) - 1


def _strike(job: int, victim: str, dice: random.Random) -> str:
    if victim == "driver":
        _kill(job)
        return "killed the driver"
    mark = {"executor": "CoarseGrainedExecutorBackend", "worker": "unskew.spark.daemon"}[victim]
    found = [pid for pid, command in _processes() if mark in command and job in _ancestors(pid)]
    if victim == "worker":  # the daemon's children, not the daemon itself
        found = [pid for pid in found if _parent(pid) in found]
    if not found:
        return f"found no {victim}"
    try:
        os.kill(dice.choice(sorted(found)), signal.SIGKILL)
    except ProcessLookupError:
        return f"a {victim} ended by itself"
    return f"killed a {victim}"


def _kill(job: int) -> None:
    """Kill the job and everything that it started."""
    family = [job] + [pid for pid, _ in _processes() if job in _ancestors(pid)]
    for pid in family:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _processes() -> list[tuple[int, str]]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.append((int(entry.name), (entry / "cmdline").read_text().replace("\0", " ")))
            except OSError:
                continue
    return found


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def _ancestors(pid: int) -> set[int]:
    ancestors = set()
    while (pid := _parent(pid)) > 1:
        ancestors.add(pid)
    return ancestors
