"""What can go wrong in a driver and its tasks, at any operation: death, errors, pauses, repetitions, late listings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from unskew.runtime import channel, engine, extract, prepare
from unskew.state import files, parts
from unskew.testing.jobs import LocalJobs, Task
from unskew.testing.place import FarFiles, MemoryFiles, MemoryPlace

DIE, FAIL = "die", "fail"
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
        What happens, by the number of the moment: `DIE`, or, where it is one of files, `FAIL`.
    meanwhile
        What else happens, once, when a moment of that name comes.
    """

    troubles: dict[int, str] = field(default_factory=dict)
    meanwhile: dict[str, Callable[[], None]] = field(default_factory=dict)
    moments: int = 0
    struck: bool = False
    failed: bool = False
    trace: list[str] = field(default_factory=list)
    task_ends_at: int | None = None
    turns: Turns | None = None
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    budget: float = np.inf
    ended: bool = False

    def __call__(self, what: str, of_files: bool = False) -> None:
        """Let a moment pass, or not."""
        if self.turns is not None:
            self._take_turns()
        self.moments += 1
        self.meanwhile.pop(what, _nothing)()
        trouble = self.troubles.get(self.moments)
        self.trace.append(f"{what}{f' ({trouble})' if trouble else ''}")
        if trouble == DIE or (trouble == FAIL and not of_files):
            self.struck = True
            raise DiedError
        if trouble == FAIL:
            self.struck = self.failed = True
            raise OSError("the network is down")
        if self.task_ends_at is not None and self.moments >= self.task_ends_at:
            self.task_ends_at = None
            raise TaskDiedError

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
    operations: int = 0
    hidden_until: dict[str, int] = field(default_factory=dict)

    def wrote(self, name: str) -> None:
        """Take note of a file that is new."""
        if self.late is not None and self.late.random() < 0.5:
            self.hidden_until[name] = self.operations + int(self.late.integers(1, 60))

    @property
    def listed(self) -> MemoryPlace:
        """What listings go by."""
        return MemoryPlace({n: b"" for n in self.contents if self.hidden_until.get(n, 0) <= self.operations})


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
            return (self._shared.listed if self._shared.late is not None else super()).names(folder)

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
        self, partitions: Iterable[pa.Table], gate: Gate, rng: np.random.Generator, rough: float, **options: Any
    ) -> None:
        super().__init__(list(partitions), cores=int(rng.integers(1, 4)), happening=gate, **options)
        self._gate, self._rng, self._rough = gate, rng, rough

    def drain(self) -> None:
        self._gate("drain")
        super().drain()

    def _task(self, name: str, function: Task, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
        mine = list(batches)
        if name in ("channels", "worker"):
            mine = [mine[place] for place in self._rng.permutation(len(mine))]
        if self._rng.random() < self._rough:
            self._gate.task_ends_at = self._gate.moments + int(self._rng.integers(1, 12))
            try:
                super()._task(name, function, mine)
            except TaskDiedError:
                pass
            finally:
                self._gate.task_ends_at = None
        results = [super()._task(name, function, mine)]
        if self._rng.random() < self._rough:  # another attempt, of which Spark takes either
            results.append(super()._task(name, function, mine))
            if name in REPEATABLE:
                assert results[0] == results[1], f"{name} gave something else the second time"
        return results[int(self._rng.integers(len(results)))]


class Time:
    """A clock that goes as it is told: now and then what it measures takes long."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self._now = rng, 0.0

    def perf_counter(self) -> float:
        """Return seconds."""
        self._now += 0.3 if self._rng.random() < 0.05 else 1e-4
        return self._now

    def sleep(self, seconds: float) -> None:
        """Do not sleep."""


@contextmanager
def in_a_world_of(rng: np.random.Generator, sweep_every: int, in_small_pieces: bool = False) -> Iterator[None]:
    """Give the runtime a clock whose readings depend on the seed alone, and sizes that fit small batches."""
    clock = Time(rng)
    with ExitStack() as stack:
        for module in (channel, files):
            stack.enter_context(mock.patch.object(module, "time", clock))
        stack.enter_context(mock.patch.object(engine, "SWEEP_EVERY", sweep_every))
        if in_small_pieces:
            stack.enter_context(mock.patch.object(prepare, "ROWS_PACKED_AT_ONCE", 2))
            stack.enter_context(mock.patch.object(extract, "ROWS_AT_ONCE", 1))
            stack.enter_context(mock.patch.object(channel, "ROWS_PER_PAYLOAD", 2))
            stack.enter_context(mock.patch.object(files, "ROLL_BYTES", 500))
            stack.enter_context(mock.patch.object(parts, "PART_BYTES", 100))
            stack.enter_context(mock.patch.object(parts, "GAP_BYTES", 0))
        yield
