"""Starting Spark programs, and finding, killing and pausing the processes that they consist of."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import pyspark

TESTS = Path(__file__).parent.parent
PLACE = zlib.crc32(str(Path(pyspark.__file__)).encode())  # Java takes an archive only where its class path is the same
ARCHIVE = Path(tempfile.gettempdir()) / f"unskew-tests-{os.getuid()}-spark-{pyspark.__version__}-{PLACE:08x}.jsa"
START_AND_STOP = """
import sys, tempfile
from unskew.spark.local_session import SHORT_RUN, session
options = f"{SHORT_RUN['spark.driver.extraJavaOptions']} -XX:ArchiveClassesAtExit={sys.argv[1]} -Xlog:disable"
spark = session("local[2,4]", {**SHORT_RUN, "spark.driver.extraJavaOptions": options})
with tempfile.TemporaryDirectory() as folder:
    spark.range(10).repartition(2).mapInArrow(lambda rows: rows, "id long").write.parquet(f"{folder}/data")
    stream = spark.readStream.schema("id long").parquet(f"{folder}/data").writeStream
    write = lambda rows, batch: rows.groupBy("id").count().write.parquet(f"{folder}/{batch}")
    query = stream.foreachBatch(write).option("checkpointLocation", f"{folder}/checkpoint")
    query.trigger(availableNow=True).start().awaitTermination()
java = spark.sparkContext._gateway.proc
spark.stop()
java.stdin.close()
java.wait()
"""
MARKS = {"executor": "executor.CoarseGrainedExecutorBackend", "worker": "-m unskew.spark.daemon"}
"""By what the processes were started; Spark's launcher has the daemon's name among its settings, too."""


def archive_classes() -> None:
    """Keep the classes that Spark loads for jobs that start later: they then start in two thirds of the time."""
    with ARCHIVE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ARCHIVE.exists():
            new = ARCHIVE.with_suffix(".new")
            subprocess.run([sys.executable, "-c", START_AND_STOP, str(new)], check=True)
            new.rename(ARCHIVE)


def environment() -> dict[str, str]:
    """Return the environment of a job, with archived classes if there are any; Java ignores what does not fit.

    Workers import what jobs share from the tests.
    """
    options = {"JDK_JAVA_OPTIONS": f"-XX:SharedArchiveFile={ARCHIVE} -Xlog:disable"} if ARCHIVE.exists() else {}
    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | options


def start(script: Path, *arguments: str, log: Path, more: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a job in a session of its own; what it prints goes to the end of a log."""
    with log.open("a") as output:
        return subprocess.Popen(
            [sys.executable, str(script), *arguments],
            env=environment() | dict(more or {}),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def victims(job: int, kind: str) -> list[int]:
    """Return the job's executors, or its Python workers: the daemon's children, not the daemon itself."""
    found = [pid for pid, command in _processes() if MARKS[kind] in command and job in _ancestors(pid)]
    return sorted(pid for pid in found if kind != "worker" or _parent(pid) in found)


def kill_one(job: int, kind: str, dice: random.Random) -> int | None:
    """Kill one of the job's executors or workers, one that is on a core if there is any; None if there was nobody."""
    found = victims(job, kind)
    for pid in sorted(found, key=lambda pid: (not is_running(pid), dice.random())):
        if send(pid, signal.SIGKILL):
            return pid
    return None


def kill_all(job: int) -> None:
    """Kill the job and everything that it started."""
    for pid in family(job):
        send(pid, signal.SIGKILL)


def family(job: int) -> list[int]:
    """Return the job and everything that it started."""
    return [job] + [pid for pid, _ in _processes() if job in _ancestors(pid)]


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; False if the process is gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def is_running(pid: int) -> bool:
    """Tell whether a process is on a core, waits for one, or waits for a disk."""
    return _stat(pid)[0] in "RD"


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
    return int(_stat(pid)[1])


def _ancestors(pid: int) -> set[int]:
    ancestors = set()
    while (pid := _parent(pid)) > 1:
        ancestors.add(pid)
    return ancestors


def _stat(pid: int) -> tuple[str, str]:
    """Return the state of a process, and its parent."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:2]
    except OSError:
        return "X", "0"
    return state, parent
