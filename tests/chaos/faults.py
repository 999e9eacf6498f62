"""Faults other than kills: each is done to a running round, cured if it has to be, and noted in the result."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import product

from chaos import clock, damage, disks
from chaos.judge import Broken
from chaos.processes import family, kill_all, send
from chaos.run import Run

Fault = Callable[[Run], None]
STOP_SECONDS = 400
HANG_SECONDS = 15
FENCED = ("FencedError", "CONCURRENT_STREAM_LOG_UPDATE", "Multiple streaming jobs detected")
"""What a driver says that was replaced: unskew's own error, or Spark's if it comes to its own log first."""


def possible() -> dict[str, Fault]:
    """Return the faults that this machine allows, in the order in which rounds take their turn."""
    found: dict[str, Fault] = {"zombie": zombie}
    if disks.can_mount():
        found |= {"disk full": disk_full, "read-only": read_only}
    if clock.can_build():
        found["clock"] = clock_jumps
    if find_spec("moto") is not None:
        found["s3"] = s3_moods
    for how, kind in product(damage.DAMAGES, damage.PLACES):
        found[f"{how} {kind}"] = partial(damaged, kind, how)
    return found


def await_stop(run: Run, *words: str) -> str:
    """Wait until the query stops by itself; return its message, which must contain some words.

    What counts is the error that the driver program gets, not what else is printed on the way.
    """
    assert run.job is not None
    try:
        run.job.wait(STOP_SECONDS)
    except Exception:
        raise Broken(f"the query did not stop, though it should: {run.said()[-1500:]}") from None
    said = run.said()
    kill_all(run.job.pid)
    if run.job.returncode == 0:
        raise Broken("the query ended as if nothing had happened")
    raised = said[max(0, said.rfind("StreamingQueryException:")) :]  # at the start of a query, any error is its own
    missing = [word for word in words if word not in raised]
    if missing:
        raise Broken(f"the message does not name {missing}: {said[-3000:]}")
    return message(raised)


def message(said: str) -> str:
    """Return the line of unskew's own error, or of Spark's if there is none."""
    lines = [line.strip() for line in said.splitlines() if "Exception" in line or "Error" in line]
    ours = [line for line in lines if line.startswith("unskew.errors.")]
    return (ours or lines or ["no message"])[-1]


def note(run: Run, fault: str, outcome: str, said: str = "") -> None:
    text = said.replace(str(run.home / "checkpoint"), "CHECKPOINT")
    run.result.faults.append({"fault": fault, "outcome": outcome, "message": text[:400]})


def damaged(kind: str, how: str, run: Run) -> None:
    """Kill the driver, damage a file and all local copies; the next start must name the file, and go on after a cure.

    The driver is killed before it writes a record, so the last record is the one that the next start reads. What a mark
    holds matters only if Spark has not committed the batch itself, so then the driver is killed in between. Whether
    there is a mark matters only if Spark has.
    """
    run.await_instant("handover" if kind == "mark" and how != "remove" else "record", 0.5, hold=True)
    run.kill_driver()
    path, piece = damage.find(run.home / "checkpoint" / "unskew", kind, run.dice)
    restore = damage.keep(path, run.home / "copies")
    damage.DAMAGES[how](path, piece, run.dice)
    for folder in (run.home / "tmp").glob("**/unskew-state-*"):
        shutil.rmtree(folder, ignore_errors=True)
    run.start()
    said = await_stop(run, str(path), "Hint:")
    restore()
    run.start()
    note(run, f"{how} {kind}", "stopped, cured, went on", said)


def disk_full(run: Run) -> None:
    """Fill the disk of the checkpoint; the query must stop and say so, and go on once there is room."""
    with disks.mounted_checkpoint(run) as folder:
        ballast = folder / "ballast"
        disks.fill(ballast)
        said = await_stop(run, "No space left on device")
        ballast.unlink()
        run.start()
        note(run, "disk full", "stopped, cured, went on", said)
        finish(run)


def read_only(run: Run) -> None:
    """Make the disk of the checkpoint read-only; the query must stop and say so, and go on once it can write."""
    with disks.mounted_checkpoint(run) as folder:
        disks.remount(folder, "ro")
        said = await_stop(run, "Read-only file system")
        disks.remount(folder, "rw")
        run.start()
        note(run, "read-only", "stopped, cured, went on", said)
        finish(run)


def finish(run: Run) -> None:
    """Let the query run to its end."""
    while not run.ended():
        time.sleep(0.1)


def zombie(run: Run) -> None:
    """Pause a driver with all its processes, let a successor run batches, and wake it up: it must be fenced off."""
    assert run.job is not None
    first = run.job
    instant = run.dice.choice(("work", "record", "record-linked", "sink", "commit", "handover"))
    run.await_instant(instant, 0.3, hold=False)
    for pid in family(first.pid):
        send(pid, signal.SIGSTOP)
    phase, at = run.track.phase_at(time.monotonic(), first.pid), run.track.batch
    log = run.home / "log"
    log.rename(run.home / "zombie-log")  # it keeps the file open, and writes on
    successor = run.start()
    while not run.reached(at + 3) and successor.poll() is None:
        time.sleep(0.05)
    for pid in reversed(family(first.pid)):
        send(pid, signal.SIGCONT)
    try:
        code = first.wait(STOP_SECONDS)
    except Exception:
        raise Broken("the driver that was replaced goes on") from None
    finally:
        kill_all(first.pid)
    said = (run.home / "zombie-log").read_text(errors="replace")
    if code == 0 or not any(words in said for words in FENCED):
        raise Broken(f"the driver that was replaced ended with {code}: {said[-3000:]}")
    note(run, "zombie", f"fenced off, paused in phase {phase}", message(said))


def clock_jumps(run: Run) -> None:
    """Let the clock of all the job's processes jump: an hour ahead, two hours back, a day ahead, and to the truth."""
    assert run.clock is not None
    for number, seconds in enumerate((3600, -7200, 86_400, 0)):
        run.clock.jump(seconds)
        await_batches(run, 2)
        note(run, f"clock {seconds:+d} s" if seconds else "clock right again", f"went on ({number + 1} of 4)")


def s3_moods(run: Run) -> None:
    """Let the server of unskew's files be slow, fail now and then, hang for a while, and fail altogether."""
    assert run.store is not None
    for mood in ("slow", "some-500"):
        run.store.be(mood)
        await_batches(run, 2)
        note(run, f"s3 {mood}", "went on")
    run.store.be("hang")
    time.sleep(HANG_SECONDS)
    run.store.be("well")
    await_batches(run, 2)
    note(run, f"s3 hangs for {HANG_SECONDS} s", "went on")
    run.store.be("500")
    said = await_stop(run, run.store.root, "Hint:")
    run.store.be("well")
    run.start()
    note(run, "s3 500", "stopped, cured, went on", said)


def await_batches(run: Run, count: int) -> None:
    """Wait until the job has done some more batches."""
    target = run.track.batch + count
    while not run.reached(target) and not run.ended():
        time.sleep(0.05)
