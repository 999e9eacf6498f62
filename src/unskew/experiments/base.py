"""What an experiment on a paper is: trials, a measurement, figures and verdicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from unskew.experiments.claims import Claim, save_claims
from unskew.experiments.runner import Measures, run_trials
from unskew.registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = Sequence[tuple[Any, Measures]]


class Experiment(ABC):
    """The experiments of one paper. A subclass with a `name`, in a module of this package, registers itself."""

    name: ClassVar[str]
    summary: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            EXPERIMENTS.add(cls.name, cls)

    @property
    @abstractmethod
    def measure(self) -> Callable[[Any], Measures]:
        """The function that runs one trial; see `run_trials`."""

    @abstractmethod
    def trials(self, quick: bool) -> Sequence[Any]:
        """Return what to run; with `quick`, a reduced grid that ends within a few minutes."""

    @abstractmethod
    def judge(self, rows: Rows) -> list[Claim]:
        """Return one entry per claim of the paper."""

    @abstractmethod
    def draw(self, rows: Rows, folder: Path) -> None:
        """Write the figures as PNG files."""

    def run(self, spark: SparkSession, folder: Path, quick: bool = False) -> list[Claim]:
        """Run everything; write ``results.parquet``, the figures and ``claims.json`` to `folder`; return the claims."""
        folder.mkdir(parents=True, exist_ok=True)
        rows = run_trials(spark, self.trials(quick), self.measure, folder / "results.parquet")
        self.draw(rows, folder)
        claims = self.judge(rows)
        save_claims(claims, folder / "claims.json")
        return claims


EXPERIMENTS: Registry[Experiment] = Registry("paper", "unskew.experiments")
