"""What the paper claims, and whether our trials agree."""

from __future__ import annotations

from unskew_lab.experiments.claims import Claim
from unskew_lab.experiments.fang.appendix import judge_tables, judge_theorems, judge_windows
from unskew_lab.experiments.fang.contenders import judge_compact, judge_rates
from unskew_lab.experiments.fang.results import Results
from unskew_lab.experiments.fang.running import judge_running
from unskew_lab.experiments.fang.sweeps import judge_channels, judge_keys, judge_skew, judge_tolerances


def claims(results: Results) -> list[Claim]:
    """Judge every claim of the paper's evaluation and of its theorems."""
    parts = (
        judge_skew,
        judge_channels,
        judge_tolerances,
        judge_keys,
        judge_compact,
        judge_rates,
        judge_running,
        judge_tables,
        judge_windows,
        judge_theorems,
    )
    return [claim for part in parts for claim in part(results)]
