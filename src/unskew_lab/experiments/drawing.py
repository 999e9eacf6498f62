"""One picture of a paper: axes to draw on, then a PNG file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

matplotlib.use("Agg")


@contextmanager
def picture(path: Path, width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> Iterator[Any]:
    """Give one axis, or a row of them, or an array of rows with at least two rows; write the file in the end."""
    figure = Figure(figsize=(width, height), layout="constrained")
    yield figure.subplots(rows, columns, **options)
    figure.savefig(path, dpi=120)
