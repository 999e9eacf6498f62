"""Where a job is, from the lines that its driver writes (`chaos.phases`) and from Spark's own log of commits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

USUAL_SECONDS = 0.2


@dataclass(frozen=True)
class Step:
    """A batch has come to an instant; `seconds` is the machine's monotonic clock."""

    seconds: float
    driver: int
    batch: int
    instant: str


class Track:
    """The steps of a job so far, over all its starts."""

    def __init__(self, home: Path) -> None:
        self.file, self.commits = home / "phases", home / "checkpoint" / "commits"
        self.steps: list[Step] = []
        self._read = 0

    def look(self) -> list[Step]:
        """Return the steps that are new."""
        try:
            with self.file.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        parts = [line.split() for line in whole.decode().splitlines()]
        new = [Step(float(at), int(driver), int(batch), instant) for at, driver, batch, instant in parts]
        self.steps += new
        return new

    @property
    def batch(self) -> int:
        """The batch that the job has come to, -1 before the first."""
        return max((step.batch for step in self.steps[-20:]), default=-1)

    @property
    def last_seconds(self) -> float:
        """When the job has come to its last step."""
        return self.steps[-1].seconds if self.steps else 0.0

    def has_begun(self, driver: int) -> bool:
        """Tell whether a driver has come to its first batch."""
        return any(step.driver == driver for step in reversed(self.steps[-20:]))

    def usual_seconds(self, phase: str) -> float:
        """Return how long a phase has lately taken."""
        took = [
            b.seconds - a.seconds for a, b in pairwise(self.steps[-60:]) if a.instant == phase and a.driver == b.driver
        ]
        return median(took[-5:]) if took else USUAL_SECONDS

    def phase_at(self, seconds: float, driver: int) -> str:
        """Return the phase that a driver was in at a time, by the monotonic clock."""
        self.look()
        past = [step for step in self.steps if step.seconds <= seconds and step.driver == driver]
        if not past:
            return "start"
        last = next(step for step in reversed(past) if step.instant != "held")
        if last.instant == "handover" and (self.commits / str(last.batch)).exists():
            return "between batches"
        return last.instant.removesuffix("-linked")
