"""What a job shows while it runs: live bars on a terminal, a line per batch elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from unskew.bars import SPARKLINE_COLUMNS, bars, counted, size, sparkline
from unskew.errors import redacted
from unskew.jobs.job import Job
from unskew.runtime.figures import BatchFigures

STARTING = "starting Spark ..."


class NoView:
    """Shows nothing: the result is for a program. The other views build on it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def show(self, batches: Sequence[BatchFigures]) -> None:
        """Show the last batch, which has just ended."""


class LiveView(NoView):
    """Bars that are drawn anew after every batch."""

    def __init__(self, console: Console, job: Job) -> None:
        self._job = job
        self._live = Live(Spinner("dots", text=f" {STARTING}"), console=console, refresh_per_second=8)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, batches: Sequence[BatchFigures]) -> None:
        self._live.update(picture(self._job, batches), refresh=True)


class PlainView(NoView):
    """One line per batch."""

    def __init__(self, console: Console, job: Job) -> None:
        self._console = console

    def __enter__(self) -> Self:
        self._console.print(STARTING)
        return self

    def show(self, batches: Sequence[BatchFigures]) -> None:
        self._console.print(line(batches[-1]), soft_wrap=True, markup=False)


def line(batch: BatchFigures) -> str:
    """Return one line on one batch."""
    hottest = f", hottest key {batch.hot_keys[0].key} {batch.hot_keys[0].share:.0%}" if batch.hot_keys else ""
    return (
        f"batch {batch.batch_id:>3}: {counted(batch.rows, 'row')} on {counted(batch.channels, 'channel')}, "
        f"fullest {imbalance(batch)}{hottest}, "
        f"{counted(batch.moved_keys + batch.moved_slots, 'move')}, {size(batch.state_bytes)} of state"
    )


def imbalance(batch: BatchFigures) -> str:
    """Say how full the fullest channel was, and how full it would have been under Spark's own hash."""
    by_hash = "" if batch.hash_imbalance is None else f" ({batch.hash_imbalance:.2f} by Spark's hash)"
    return f"{batch.imbalance:.2f} times the mean{by_hash}"


def picture(job: Job, batches: Sequence[BatchFigures]) -> RenderableType:
    """Return the last batch as bars, and what led to it."""
    batch = batches[-1]
    mean = batch.rows / max(batch.channels, 1)
    figures = Table.grid(padding=(0, 2))
    trend = sparkline([each.imbalance - 1 for each in batches][-SPARKLINE_COLUMNS:])
    figures.add_row("imbalance", f"{imbalance(batch)}  {trend}")
    figures.add_row("moves so far", f"[bold]{sum(each.moved_keys + each.moved_slots for each in batches)}[/]")
    figures.add_row("state", f"{counted(batch.state_keys, 'key')}, {size(batch.state_bytes)}")
    if batch.late_rows:
        figures.add_row("late rows", f"[bold]{batch.late_rows:,}[/]")
    if batch.hot_keys:
        hot = "  ".join(f"{key.key} {key.share:.0%}" for key in batch.hot_keys)
        figures.add_row("hot keys", Text(hot, overflow="ellipsis", no_wrap=True))
    title = redacted(f"{job.source} by {job.key} to {job.sink}: batch {batch.batch_id}, {counted(batch.rows, 'row')}")
    return Group(
        Text(title, "bold"),
        Text(f"rows per channel, {mean:,.0f} if balanced", "dim"),
        bars([str(channel) for channel in range(len(batch.channel_rows))], batch.channel_rows, mean=mean),
        Text(),
        figures,
        Text("Ctrl-C ends it; what is committed stays.", "dim"),
    )
