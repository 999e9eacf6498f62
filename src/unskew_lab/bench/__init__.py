"""Side-by-side measurements: one module per benchmark, all reported in one form."""

from __future__ import annotations

from unskew_lab.bench.harness import Benchmark, Row, Timing, benchmarks, interleave, report

__all__ = ["Benchmark", "Row", "Timing", "benchmarks", "interleave", "report"]
