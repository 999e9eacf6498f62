"""Bars and small curves of blocks for a terminal, and numbers as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.bar import Bar
from rich.markup import escape
from rich.table import Table

BLOCKS = "▁▂▃▄▅▆▇█"
SPARKLINE_COLUMNS = 24


def bars(
    labels: Sequence[str],
    values: Sequence[float],
    *,
    notes: Sequence[str] | None = None,
    mean: float | None = None,
    tolerance: float = 0.1,
    width: int = 40,
) -> Table:
    """Return one horizontal bar per label, for rich to print. Values must not be negative.

    Bars more than `tolerance` above `mean` (by default the mean of the values) are red, the others green. `notes` stand
    to the right of the bars in place of the values.
    """
    target = mean if mean is not None else (sum(values) / len(values) if len(values) else 0.0)
    largest = max(values, default=0) or 1
    beside = notes if notes is not None else [f"{value:,.6g}" for value in values]
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="bold", no_wrap=True, min_width=max(map(len, labels), default=0))
    table.add_column(width=width)
    table.add_column(justify="right", no_wrap=True, min_width=max(map(len, beside), default=0))
    for label, value, note in zip(labels, values, beside, strict=True):
        colour = "red" if value > target * (1 + tolerance) else "green"
        table.add_row(escape(label), Bar(largest, 0, value, width=width, color=colour), escape(note))
    return table


def sparkline(values: Sequence[float]) -> str:
    """Return one block per value, the largest at full height.

    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    largest = max(values, default=0.0) or 1.0
    return "".join(BLOCKS[round(value / largest * (len(BLOCKS) - 1))] for value in values)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one.

    >>> counted(1, "row"), counted(2000, "row"), counted(2, "batch")
    ('1 row', '2,000 rows', '2 batches')
    """
    plural = f"{noun}es" if noun.endswith(("ch", "s")) else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def size(number: float) -> str:
    """Return a number of bytes as people read it.

    >>> size(1536), size(5)
    ('1.5 KiB', '5 B')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"
