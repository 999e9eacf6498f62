"""What can go wrong in a driver and its tasks, at any operation: death, errors, pauses, repetitions, late listings."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from chaos.ledger import SECRETS
from unskew.runtime import channel, engine, extract, log, prepare
from unskew.state import files, parts
from unskew.testing.jobs import LocalJobs, Task
from unskew.testing.place import FarFiles, MemoryFiles, MemoryPlace

DIE, FAIL, UNSAID, DOWN, LOSE = "die", "fail", "unsaid", "down", "lose"
TASK_DIES, TWICE, AGAIN = "task", "twice", "again"
TROUBLES = {
    DIE: "the driver is gone",
    FAIL: "an operation on files fails, before its effect or after it",
    UNSAID: "a file is written, but whoever wrote it is told that this failed",
    DOWN: "from now on every operation on files fails",
    LOSE: "all local copies of state are gone",
    TASK_DIES: "the task that runs is gone, and Spark starts it again",
    TWICE: "the task that begins runs twice, and Spark takes the first result",
    AGAIN: "the task that begins runs twice, and Spark takes the second result",
}
WRITTEN = ("after create", "after write", "after replace")
REPEATABLE = ("prepare", "route", "worker", "give")
"""Tasks whose output Spark takes to be the same in every attempt."""


class DiedError(BaseException):
    """A driver is gone; nothing may catch this."""


class TaskDiedError(BaseException):
    """A task is gone; Spark starts it again."""


def _nothing() -> None:
    pass


def die() -> None:
    """Be gone."""
    raise DiedError


class Turns:
    """Lets several drivers run, one at a time, each as many operations as it is given."""

    def __init__(self) -> None:
        self.back = threading.Semaphore(0)


@dataclass(eq=False)
class Gate:
    """All that a driver and its tasks do goes through here: twice for each operation, before and after its effect.

    Parameters
    ----------
    troubles
        What happens, by the number of the moment; see `TROUBLES`. What needs a file or a task waits for one.
    meanwhile
        What else happens, once, when a moment of that name comes.
    lose
        Removes local copies; tells whether there were any.
    seen
        Counts what has happened.
    """

    troubles: dict[int, str] = field(default_factory=dict)
    meanwhile: dict[str, Callable[[], None]] = field(default_factory=dict)
    lose: Callable[[], bool] = lambda: False
    seen: Counter[str] = field(default_factory=Counter)
    moments: int = 0
    failed: bool = False
    trace: list[str] = field(default_factory=list)
    in_task: bool = False
    turns: Turns | None = None
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    budget: float = np.inf
    ended: bool = False

    def __post_init__(self) -> None:
        self._waiting = sorted(self.troubles.items())
        self._down = False

    def __call__(self, what: str, of_files: bool = False) -> None:
        """Let a moment pass, or not."""
        if self.turns is not None:
            self._take_turns()
        self.moments += 1
        self.trace.append(what)
        self.meanwhile.pop(what, _nothing)()
        due = [kind for moment, kind in self._waiting if moment <= self.moments]
        if not due and not self._down:
            return
        if LOSE in due:
            self._strike(LOSE, "local copies lost" if self.lose() else "no local copies to lose")
        if DOWN in due:
            self._strike(DOWN, "storage down")
            self._down = True
        if DIE in due:
            self._strike(DIE, "driver died")
            raise DiedError
        if TASK_DIES in due and self.in_task:
            self._strike(TASK_DIES, "task died")
            raise TaskDiedError
        if of_files and (self._down or self._fails(what, due)):
            self.failed = True
            raise OSError("the network is down")

    def _fails(self, what: str, due: list[str]) -> bool:
        written = what.startswith(WRITTEN)
        kind = FAIL if FAIL in due else UNSAID if UNSAID in due and written else None
        if kind is not None:
            self._strike(kind, "write failed after its effect" if written else f"{what.split()[1]} failed")
        return kind is not None

    def repeats(self) -> str | None:
        """Tell whether the task that begins runs twice, and which result counts."""
        due = [kind for moment, kind in self._waiting if moment <= self.moments + 1 and kind in (TWICE, AGAIN)]
        if due:
            self._strike(due[0], f"task ran {due[0]}")
        return due[0] if due else None

    def _strike(self, kind: str, seen: str) -> None:
        place = next(place for place, waits in enumerate(self._waiting) if waits[1] == kind)
        del self._waiting[place]
        self.trace[-1:] = [f"{self.trace[-1]} ({kind})"] if self.trace else []
        self.seen[seen] += 1

    def _take_turns(self) -> None:
        assert self.turns is not None
        if self.budget <= 0:
            self.turns.back.release()
            self.go.acquire()
        self.budget -= 1
        if self.ended:
            raise DiedError


@dataclass(eq=False)
class Shared:
    """The disk that all drivers share; a listing may show new files late."""

    contents: dict[str, bytes] = field(default_factory=dict)
    late: np.random.Generator | None = None
    seen: Counter[str] = field(default_factory=Counter)
    operations: int = 0
    hidden_until: dict[str, int] = field(default_factory=dict)

    def wrote(self, name: str) -> None:
        """Take note of a file that is new."""
        if self.late is not None and self.late.random() < 0.5:
            self.hidden_until[name] = self.operations + int(self.late.integers(1, 60))

    def names(self, folder: str, names: list[str]) -> list[str]:
        """Return those of the names in a folder that a listing shows."""
        if self.late is None:
            return names
        hidden = {name for name, until in self.hidden_until.items() if until > self.operations}
        shown = MemoryPlace({name: b"" for name in self.contents if name not in hidden}).names(folder)
        self.seen["late listing"] += len(shown) < len(names)
        return shown


class TroubledPlace(MemoryPlace):
    """The shared disk as one driver reaches it; see `unskew.state.place.Place`."""

    def __init__(self, shared: Shared, gate: Gate) -> None:
        super().__init__(shared.contents)
        self._shared, self._gate = shared, gate

    def create(self, name: str, data: bytes) -> bool:
        with self._moments("create", name):
            new = super().create(name, data)
            if new:
                self._shared.wrote(name)
        return new

    def write(self, name: str, data: bytes) -> None:
        with self._moments("write", name):
            self._shared.wrote(name)
            super().write(name, data)

    def replace(self, name: str, data: bytes) -> None:
        with self._moments("replace", name):
            self.contents[name] = bytes(data)

    def read(self, name: str) -> bytes:
        with self._moments("read", name):
            return super().read(name)

    def read_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        with self._moments("read", name):
            return pa.py_buffer(super().read(name)[offset : offset + length])

    def names(self, folder: str) -> list[str]:
        with self._moments("list", folder):
            return self._shared.names(folder, super().names(folder))

    def exists(self, name: str) -> bool:
        with self._moments("look for", name):
            return super().exists(name)

    def remove(self, name: str) -> None:
        with self._moments("remove", name):
            super().remove(name)

    def remove_folder(self, name: str) -> None:
        with self._moments("remove", name):
            super().remove_folder(name)

    @contextmanager
    def _moments(self, operation: str, name: str) -> Iterator[None]:
        self._shared.operations += 1
        self._gate(f"before {operation} {name}", of_files=True)
        yield
        self._gate(f"after {operation} {name}", of_files=True)


def files_of(shared: Shared, gate: Gate, far: bool = False) -> MemoryFiles:
    """Return the shared disk as one driver reaches it; if it is far, its tasks do not."""
    return (FarFiles if far else MemoryFiles)("memory", TroubledPlace(shared, gate))


class TroubledJobs(LocalJobs):
    """Tasks that die, that run twice, and that get what came through a shuffle in any order."""

    def __init__(
        self, partitions: Iterable[pa.Table], gate: Gate, rng: np.random.Generator | None = None, **options: Any
    ) -> None:
        cores = 2 if rng is None else int(rng.integers(1, 4))
        super().__init__(list(partitions), cores=cores, happening=gate, **options)
        self._gate, self._rng = gate, rng

    def drain(self) -> None:
        self._gate("drain")
        super().drain()

    def _task(self, name: str, function: Task, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
        mine = list(batches)
        if name in ("channels", "worker") and self._rng is not None:
            mine = [mine[place] for place in self._rng.permutation(len(mine))]
        counts = self._gate.repeats()
        first = self._attempt(name, function, mine)
        if counts is None:
            return first
        second = self._attempt(name, function, mine)
        if name in REPEATABLE:
            assert first == second, f"{name} gave something else the second time"
        return first if counts == TWICE else second

    def _attempt(self, name: str, function: Task, mine: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        self._gate.in_task = True
        try:
            return super()._task(name, function, mine)
        except TaskDiedError:
            return super()._task(name, function, mine)
        finally:
            self._gate.in_task = False


class Time:
    """A clock that goes as it is told: now and then what it measures takes long."""

    def __init__(self, rng: np.random.Generator | None) -> None:
        self._rng, self._now = rng, 0.0

    def perf_counter(self) -> float:
        """Return seconds."""
        self._now += 0.3 if self._rng is not None and self._rng.random() < 0.05 else 1e-4
        return self._now

    def sleep(self, seconds: float) -> None:
        """Do not sleep."""


@contextmanager
def in_a_world_of(
    rng: np.random.Generator, sweep_every: int, in_small_pieces: bool = False, even_clock: bool = False
) -> Iterator[None]:
    """Give the runtime a clock and names that depend on the seed alone, and sizes that fit small batches."""
    clock, names = Time(None if even_clock else rng.spawn(1)[0]), rng.spawn(1)[0]
    SECRETS.seed(int(rng.integers(1 << 60)))
    random_names = SimpleNamespace(uuid4=lambda: uuid.UUID(bytes=names.bytes(16)))
    with ExitStack() as stack:
        for module in (channel, files):
            stack.enter_context(mock.patch.object(module, "time", clock))
        for module in (channel, log):
            stack.enter_context(mock.patch.object(module, "uuid", random_names))
        stack.enter_context(mock.patch.object(engine, "SWEEP_EVERY", sweep_every))
        if in_small_pieces:
            stack.enter_context(mock.patch.object(prepare, "ROWS_PACKED_AT_ONCE", 2))
            stack.enter_context(mock.patch.object(extract, "ROWS_AT_ONCE", 1))
            stack.enter_context(mock.patch.object(channel, "ROWS_PER_PAYLOAD", 2))
            stack.enter_context(mock.patch.object(files, "ROLL_BYTES", 500))
            stack.enter_context(mock.patch.object(parts, "PART_BYTES", 100))
            stack.enter_context(mock.patch.object(parts, "GAP_BYTES", 0))
        yield
