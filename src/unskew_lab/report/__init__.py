"""Results as pages: one HTML file with the plots inside for a run of any kind, and Markdown for benchmarks."""

from __future__ import annotations

from unskew_lab.report.benchmarks import write_benchmarks
from unskew_lab.report.runs import write_report

__all__ = ["write_benchmarks", "write_report"]
