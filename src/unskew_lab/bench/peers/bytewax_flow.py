"""Bytewax: a Python function for every row of a key, one worker, state in memory without recovery."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unskew_lab.bench.peers.peer import Peer, Totals, not_installed


def running_sums(folder: Path) -> Totals:
    """Run a stateful map over all rows."""
    operators, dataflow, testing = (_module(name) for name in ("operators", "dataflow", "testing"))
    given: list[Any] = []
    flow = dataflow.Dataflow("sums")
    rows = operators.input("rows", flow, testing.TestingSource(_rows(folder), batch_size=10_000))
    sums = operators.stateful_map("sums", rows, _add)
    operators.output("out", sums, testing.TestingSink(given))
    testing.run_main(flow)
    return dict(given)


def _module(name: str) -> Any:
    return importlib.import_module(f"bytewax.{name}")


def _rows(folder: Path) -> Iterator[tuple[str, float]]:
    import pyarrow.parquet as pq

    for path in sorted(folder.glob("*.parquet")):
        table = pq.read_table(path)
        yield from zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)


def _add(state: tuple[int, float] | None, value: float) -> tuple[tuple[int, float], tuple[int, float]]:
    n, total = state or (0, 0.0)
    new = (n + 1, total + value)
    return new, new


BYTEWAX = Peer("bytewax, one worker, no recovery", running_sums, not_installed("bytewax"))
