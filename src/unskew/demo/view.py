"""What the demonstration shows while it runs: live bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from unskew.cli.output import bars
from unskew.demo.batch import Batch, Summary
from unskew.demo.settings import Settings

STARTING = "starting Spark and its Python workers: twenty seconds or so ..."
BLOCKS = "▁▂▃▄▅▆▇█"


class View(Protocol):
    """Shows batches; a context manager, so that a terminal is left in order."""

    def __enter__(self) -> View:
        """Begin."""

    def __exit__(self, *error: object) -> None:
        """End, whatever happened."""

    def show(self, batches: Sequence[Batch]) -> None:
        """Show the last batch, and the history if there is room."""


class LiveView:
    """Bars that are drawn anew after every batch."""

    def __init__(self, console: Console, settings: Settings) -> None:
        self._settings = settings
        waiting = Spinner("dots", text=f" {STARTING}")
        self._live = Live(waiting, console=console, refresh_per_second=8, transient=False)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, batches: Sequence[Batch]) -> None:
        """Draw the picture of the last batch."""
        self._live.update(picture(batches, self._settings), refresh=True)


class PlainView:
    """One line per batch."""

    def __init__(self, console: Console, settings: Settings) -> None:
        self._console, self._settings = console, settings

    def __enter__(self) -> PlainView:
        self._console.print(STARTING)
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def show(self, batches: Sequence[Batch]) -> None:
        """Print the line of the last batch."""
        self._console.print(line(batches[-1]), soft_wrap=True)


class NoView:
    """Shows nothing: the result is for a program."""

    def __enter__(self) -> NoView:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def show(self, batches: Sequence[Batch]) -> None:
        """Show nothing."""


def line(batch: Batch) -> str:
    """Return one line on one batch.

    Examples
    --------
    >>> from unskew.demo.batch import HotKey
    >>> line(Batch(3, 2.5, (600, 200), (1.8, 0.6), (HotKey("user-7", 400, 0, 1.2),)))
    'batch 3: 600 of 800 rows on channel 0, 1.50 times the mean; hot: user-7 50% on 0; 2.5 s, balanced 1.9 s'
    """
    hot = ", ".join(f"{key.name} {key.rows / batch.rows:.0%} on {key.channel}" for key in batch.hot_keys[:3])
    return (
        f"batch {batch.number}: {max(batch.channel_rows):,} of {batch.rows:,} rows on channel {batch.fullest}, "
        f"{1 + batch.imbalance:.2f} times the mean; hot: {hot}; "
        f"{batch.seconds:.1f} s, balanced {batch.balanced_seconds:.1f} s"
    )


def picture(batches: Sequence[Batch], settings: Settings) -> RenderableType:
    """Return the picture of the last batch, with the history of the imbalance."""
    batch = batches[-1]
    loads = bars(
        [f"channel {channel}" for channel in range(len(batch.channel_rows))],
        batch.channel_rows,
        notes=[f"{rows:,}" for rows in batch.channel_rows],
        width=24,
    )
    keys = Table.grid(padding=(0, 2))
    for key in batch.hot_keys:
        keys.add_row(f"[bold]{key.name}[/]", f"{key.rows / batch.rows:.1%}", f"on channel {key.channel}")
    side = Group(Text("hottest keys", style="dim"), keys)
    above = Table.grid(padding=(0, 4))
    above.add_row(
        Group(Text(f"rows per channel, {batch.rows // len(batch.channel_rows):,} if balanced", "dim"), loads), side
    )
    saved = 1 - batch.balanced_seconds / batch.seconds
    below = Table.grid(padding=(0, 2))
    worst = f"channel {batch.fullest} has [bold red]{1 + batch.imbalance:.2f} times[/] the mean"
    below.add_row("imbalance", worst, sparkline([each.imbalance for each in batches]))
    below.add_row(
        "this batch",
        f"{batch.seconds:.1f} s, balanced [bold green]{batch.balanced_seconds:.1f} s[/]",
        f"{saved:.0%} shorter",
    )
    return Panel(
        Group(above, Text(), below),
        title=f"[bold]Spark's own hash partitioning[/]  batch {batch.number + 1} of {settings.batches}",
        subtitle="[dim]Ctrl-C ends it[/]",
        padding=(1, 1),
        expand=False,
    )


def sparkline(values: Sequence[float]) -> str:
    """Return one block per value, the largest at full height.

    Examples
    --------
    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    largest = max(values, default=0.0) or 1.0
    return "".join(BLOCKS[round(value / largest * (len(BLOCKS) - 1))] for value in values)


def conclusion(summary: Summary) -> str:
    """Return two sentences on all batches."""
    return (
        f"Over {summary.batches} batches the fullest channel had [bold]{1 + summary.mean_imbalance:.2f} times[/] "
        f"the mean, at worst {1 + summary.worst_imbalance:.2f} times. They took {summary.seconds:.1f} s; "
        f"with the work spread evenly they would have taken [bold]{summary.balanced_seconds:.1f} s[/], "
        f"{summary.share_saved:.0%} less."
    )
