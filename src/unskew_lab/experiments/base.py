"""What an experiment on a paper is: trials, a measurement, figures and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from unskew.registry import Registry
from unskew_lab.experiments.claims import Claim, save_claims
from unskew_lab.experiments.runner import Measures, run_trials

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = Sequence[tuple[Any, Measures]]


Judge = Callable[[Any], Iterable[Claim]]


class Experiment:
    """The experiments of one paper. A subclass with a `name`, in a module of this package, registers itself.

    Attributes
    ----------
    name, summary
        Its word on the command line, and one line about it.
    grid
        Returns the trials; with `quick`, a reduced grid that ends within a few minutes.
    measure
        Runs one trial; see `run_trials`.
    results
        Makes of the rows, trials with their measures, what judges and figures look at.
    judges
        Each gives the claims of one figure or table, with their verdicts.
    figures
        Draws the results to PNG files in a folder.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    grid: ClassVar[Any]
    measure: ClassVar[Any]
    results: ClassVar[Any]
    judges: ClassVar[tuple[Judge, ...]]
    figures: ClassVar[Any]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            EXPERIMENTS.add(cls.name, cls)

    def trials(self, quick: bool) -> Sequence[Any]:
        """Return what to run."""
        return list(self.grid(quick=quick))

    def judge(self, rows: Rows) -> list[Claim]:
        """Return one entry per claim of the paper."""
        results = self.results(rows)
        return [claim for judge in self.judges for claim in judge(results)]

    def draw(self, rows: Rows, folder: Path) -> None:
        """Write the figures as PNG files."""
        self.figures(self.results(rows), folder)

    def run(self, spark: SparkSession, folder: Path, quick: bool = False) -> list[Claim]:
        """Run everything; write ``results.parquet``, the figures and ``claims.json`` to `folder`; return the claims."""
        folder.mkdir(parents=True, exist_ok=True)
        rows = run_trials(spark, self.trials(quick), self.measure, folder / "results.parquet")
        self.draw(rows, folder)
        claims = self.judge(rows)
        save_claims(claims, folder / "claims.json")
        return claims


EXPERIMENTS: Registry[Experiment] = Registry("paper", "unskew_lab.experiments")
