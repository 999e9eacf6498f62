"""What an experiment on a paper is: trials, a measurement, figures and verdicts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from unskew.registry import Registry
from unskew_lab.experiments.claims import Claim, judge_claims, load_table, save_claims
from unskew_lab.experiments.runner import Measures, run_trials

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = Sequence[tuple[Any, Measures]]


class Experiment:
    """The experiments of one paper: a subclass with a `name`, beside a ``claims.toml``, registers itself."""

    name: ClassVar[str]  # its word on the command line
    summary: ClassVar[str]
    grid: ClassVar[Any]  # returns the trials; with `quick`, a reduced grid that ends within a few minutes
    measure: ClassVar[Any]  # runs one trial, see `run_trials`
    results: ClassVar[Any]  # turns the rows, trials with their measures, into what judges and figures look at
    verdicts: ClassVar[tuple[ModuleType, ...]]  # whose functions `judge_*` yield the findings of a figure or table
    figures: ClassVar[Any]  # draws the results to PNG files in a folder

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            EXPERIMENTS.add(cls.name, cls)

    def trials(self, quick: bool) -> Sequence[Any]:
        return list(self.grid(quick=quick))

    def judge(self, rows: Rows) -> list[Claim]:
        """Return every claim of the paper with its verdict."""
        results = self.results(rows)
        table = Path(str(sys.modules[type(self).__module__].__file__)).with_name("claims.toml")
        judges = [judge for each in self.verdicts for name, judge in vars(each).items() if name.startswith("judge_")]
        return judge_claims(load_table(table), (finding for judge in judges for finding in judge(results)))

    def run(self, spark: SparkSession, folder: Path, quick: bool = False) -> list[Claim]:
        """Run everything; write ``results.parquet``, the figures and ``claims.json`` to `folder`; return the claims."""
        folder.mkdir(parents=True, exist_ok=True)
        rows = run_trials(spark, self.trials(quick), self.measure, folder / "results.parquet")
        self.figures(self.results(rows), folder)
        claims = self.judge(rows)
        save_claims(claims, folder / "claims.json")
        return claims


EXPERIMENTS: Registry[Experiment] = Registry("paper", "unskew_lab.experiments")
