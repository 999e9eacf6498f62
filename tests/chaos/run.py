"""One round: the job runs, is struck, starts again, and ends; then its rows are judged."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any

import pyarrow.parquet as pq

from chaos import judge
from chaos.clock import JumpingClock
from chaos.phases import HELD
from chaos.processes import is_running, kill_all, kill_one, start, victims
from chaos.rounds import Round, Strike, write_data
from chaos.stores import MoodyStore
from chaos.track import Track

JOB = Path(__file__).with_name("job.py")
LONGEST_STEP_SECONDS = 900
LONGEST_WAIT_SECONDS = 40
LONGEST_BUSY_SECONDS = 1.0
TASKS = ("count", "work")  # phases in which tasks run
BY_KILLS = ("Python worker exited unexpectedly", "ExecutorLostFailure", "Connection reset", "crashed", "EOFException")
"""Words of an error that says that tasks died too often for Spark; the query then stops and is started again."""


@dataclass
class Kill:
    """A process that was killed."""

    victim: str
    phase: str
    batch: int
    busy: bool  # whether the worker was on a core


@dataclass
class Result:
    """What became of a round."""

    seed: int
    number: int
    query: str
    master: str
    sink: str
    resize: bool
    fault: str
    kills: list[Kill] = field(default_factory=list)
    starts: int = 0
    stops: int = 0  # by the query itself, because tasks died too often
    batches: int = 0
    rows: int = 0
    seconds: float = 0.0
    faults: list[dict[str, str]] = field(default_factory=list)
    verdict: str = ""  # "exact", or what is wrong


class Run:
    """A round under way in a folder of its own."""

    def __init__(self, round_: Round, home: Path) -> None:
        shutil.rmtree(home, ignore_errors=True)
        (home / "tmp").mkdir(parents=True)
        self.round, self.home, self.track = round_, home, Track(home)
        self.dice = random.Random(f"{round_.seed} {round_.number} instants")
        self.tables, self.truth = write_data(round_, home / "data")
        self.environment: dict[str, str] = {"TMPDIR": str(home / "tmp")}
        self.settings: dict[str, Any] = round_.settings | {"s3": ""}
        parts = ("seed", "number", "query", "master", "sink", "resize", "fault")
        self.result = Result(**{name: getattr(round_, name) for name in parts})
        self.job: Popen[bytes] | None = None
        self._jobs, self._closed = list[Popen[bytes]](), False
        self._log_from, self._started = 0, 0.0
        self.clock, self.store = None, None
        if round_.fault == "clock":
            self.clock = JumpingClock(home)
            self.environment |= self.clock.environment
        if round_.fault == "s3":
            self.store = MoodyStore(home)
            self.environment |= self.store.environment
            self.settings["s3"] = self.store.root

    def start(self) -> Popen[bytes]:
        """Start the driver program, again if it has run before."""
        if self._closed:
            raise judge.Broken("the round was interrupted")
        (self.home / "hold").unlink(missing_ok=True)
        (self.home / "round.json").write_text(json.dumps(self.settings))
        log = self.home / "log"
        self._log_from = log.stat().st_size if log.exists() else 0
        self.job = start(JOB, str(self.home), log=log, more=self.environment)
        self._jobs.append(self.job)
        self._started = time.monotonic()
        self.result.starts += 1
        return self.job

    def said(self) -> str:
        """Return what the job has printed since it was last started."""
        with (self.home / "log").open("rb") as log:
            log.seek(self._log_from)
            return log.read().decode(errors="replace")

    def play(self, fault: Callable[[Run], None] | None = None) -> Result:
        """Run the round to its end, and judge it."""
        began, strikes = time.monotonic(), list(self.round.strikes)
        try:
            self.start()
            while not self.ended():
                if strikes and self.reached(strikes[0].batch):
                    self.strike(strikes.pop(0))
                elif fault and not strikes and self.reached(self.round.strikes[-1].batch + 2):
                    fault(self)
                    fault = None
                time.sleep(0.02)
            if fault:
                raise judge.Broken(f"the query ended before there was a chance for the fault {self.round.fault!r}")
            self.judge()
            self.result.verdict = "exact"
        except judge.Broken as error:
            self.result.verdict = str(error)
        finally:
            self.close()
        self.result.seconds = round(time.monotonic() - began, 1)
        (self.home / "result.json").write_text(json.dumps(asdict(self.result), indent=1))
        return self.result

    def close(self) -> None:
        """End what the round has started; it starts nothing more."""
        self._closed = True
        for job in self._jobs:
            if job.poll() is None:
                kill_all(job.pid)
                job.wait()
        if self.store is not None:
            self.store.close()

    def reached(self, batch: int) -> bool:
        """Tell whether the job has come to a batch, and its driver, if it is a new one, to any."""
        assert self.job is not None
        self.track.look()
        return self.track.batch >= batch and self.track.has_begun(self.job.pid)

    def ended(self) -> bool:
        """Tell whether the job has done all its work; start it again if it has stopped before."""
        if time.monotonic() - max(self._started, self.track.last_seconds) > LONGEST_STEP_SECONDS:
            raise judge.Broken(
                f"the job has not come a step further for {LONGEST_STEP_SECONDS} s: {self.said()[-1500:]}"
            )
        assert self.job is not None
        code = self.job.poll()
        if code is None:
            return False
        if code == 0:
            return True
        said = self.said()
        if not any(words in said for words in BY_KILLS):
            raise judge.Broken(f"the job ended with {code} and no reason that a kill would give: {said[-3000:]}")
        self.result.stops += 1
        if self.result.stops > len(self.round.strikes):
            raise judge.Broken(f"the job stops again and again: {said[-3000:]}")
        kill_all(self.job.pid)
        self.start()
        return False

    def strike(self, strike: Strike) -> None:
        """Kill somebody, in the phase that the strike names if the batch comes to it."""
        assert self.job is not None
        self.await_instant(strike.phase, strike.fraction, hold=strike.victim == "driver")
        if self.job.poll() is not None:
            return
        if strike.victim == "driver":
            self.kill_driver()
            self.start()
            return
        busy = self.await_busy(strike.victim)
        killed = kill_one(self.job.pid, strike.victim, self.dice)
        if killed is not None:
            phase = self.track.phase_at(time.monotonic(), self.job.pid)
            self._note(Kill(strike.victim, phase, self.track.batch, killed in busy))

    def await_busy(self, victim: str) -> set[int]:
        """Wait a moment for a victim that is on a core; return all that are."""
        assert self.job is not None
        until = time.monotonic() + LONGEST_BUSY_SECONDS
        while True:
            found = victims(self.job.pid, victim)
            for _ in range(20):
                busy = {pid for pid in found if is_running(pid)}
                if busy or time.monotonic() > until:
                    return busy
                time.sleep(0.002)

    def kill_driver(self) -> None:
        """Kill the driver with all its processes."""
        assert self.job is not None
        at = time.monotonic()
        kill_all(self.job.pid)
        self.job.wait()
        self._note(Kill("driver", self.track.phase_at(at, self.job.pid), self.track.batch, True))

    def _note(self, kill: Kill) -> None:
        self.result.kills.append(kill)
        with (self.home / "kills").open("a") as file:
            file.write(f"{kill.victim} in {kill.phase} of batch {kill.batch}\n")

    def await_instant(self, phase: str, fraction: float, hold: bool) -> None:
        """Wait for the next time that a batch comes to a phase, and then for a part of the phase.

        A driver that is to be struck in a phase of a few milliseconds is held there.
        """
        assert self.job is not None
        if phase == "any":
            time.sleep(fraction)
            return
        if phase == "tasks" and (now := self.track.phase_at(time.monotonic(), self.job.pid)) in TASKS:
            time.sleep(fraction * self.track.usual_seconds(now) / 2)
            return
        hold = hold and phase in HELD
        if hold:
            (self.home / "hold").write_text(phase)
        wanted = TASKS if phase == "tasks" else ("held",) if hold else (phase,)
        until = time.monotonic() + LONGEST_WAIT_SECONDS
        while time.monotonic() < until and self.job.poll() is None:
            found = [step.instant for step in self.track.look() if step.instant in wanted]
            if found:
                time.sleep(fraction * (0.01 if hold else self.track.usual_seconds(found[-1])))
                return
            time.sleep(0.003)

    def judge(self) -> None:
        """Judge what the sink has, by the data and by Spark's own result."""
        query, batches = self.round.query, judge.outputs(self.home / "out")
        native = pq.read_table(self.home / "native").to_pylist()
        if query == "chain":
            judge.check_chain(batches, self.truth)
            judge.check_last(batches, native)
        elif query == "totals":
            judge.check_totals(batches, [table.to_pylist() for table in self.tables])
            judge.check_last(batches, native)
        elif query == "lives":
            judge.check_lives(batches, self.truth)
        else:
            judge.check_once([[row for row in rows if row["key"] != "last"] for rows in batches], native)
        self.result.batches = sum(path.name.isdigit() for path in (self.home / "checkpoint" / "commits").iterdir())
        self.result.rows = sum(len(table) for table in self.tables)
