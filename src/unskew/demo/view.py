"""What the race shows while it runs: two panels of live bars on a terminal, plain lines elsewhere; then a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.bar import Bar
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from unskew.demo.batch import Batch
from unskew.demo.race import NAMES, RACERS, WARM_UP_BATCHES, Figures, Race, Racer
from unskew.demo.settings import Settings

STARTING = "starting Spark and its Python workers: twenty seconds or so ..."
BLOCKS = "▁▂▃▄▅▆▇█"
BAR_COLUMNS = 21
SPARKLINE_COLUMNS = 24
FULL = 1.1  # a channel is drawn red from so many times the mean on


class View(Protocol):
    """Shows the race; a context manager, so that a terminal is left in order."""

    def __enter__(self) -> View:
        """Begin."""

    def __exit__(self, *error: object) -> None:
        """End, whatever happened."""

    def show(self, race: Race, racer: Racer) -> None:
        """Show that a racer has ended a batch."""


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

    def show(self, race: Race, racer: Racer) -> None:
        """Draw the picture of both racers' last batches."""
        self._live.update(picture(race, self._settings), refresh=True)


class PlainView:
    """One line per batch."""

    def __init__(self, console: Console, settings: Settings) -> None:
        self._console, self._settings = console, settings

    def __enter__(self) -> PlainView:
        self._console.print(STARTING)
        self._console.print(f"{self._settings.cost}.", soft_wrap=True)
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def show(self, race: Race, racer: Racer) -> None:
        """Print the line of the racer's last batch."""
        self._console.print(line(racer, race.batches[racer][-1]), soft_wrap=True)


class NoView:
    """Shows nothing: the result is for a program."""

    def __enter__(self) -> NoView:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def show(self, race: Race, racer: Racer) -> None:
        """Show nothing."""


def line(racer: Racer, batch: Batch) -> str:
    """Return one line on one batch.

    Examples
    --------
    >>> line("unskew", Batch(3, 2.5, (600, 200), (1.8, 0.6), moves=7))
    'unskew        batch  3:  2.5 s, fullest channel 0 with 600 of 800 rows, 1.50 times the mean, 7 moves so far'
    """
    return (
        f"{NAMES[racer]:<12}  batch {batch.number:>2}: {batch.seconds:>4.1f} s, "
        f"fullest channel {batch.fullest} with {max(batch.channel_rows):,} of {batch.rows:,} rows, "
        f"{batch.imbalance:.2f} times the mean, {batch.moves} moves so far"
    )


def picture(race: Race, settings: Settings) -> RenderableType:
    """Return both racers' last batches side by side, and how far each has come."""
    largest = max((max(batches[-1].channel_rows) for batches in race.batches.values() if batches), default=1)
    panels = Table.grid(padding=(0, 1))
    panels.add_row(*(_panel(racer, race.batches[racer], largest) for racer in RACERS))
    return Group(
        panels,
        _progress(race, settings),
        Text(f"Same stream, same function, by turns. {settings.cost.capitalize()}. Ctrl-C ends it.", "dim"),
    )


def _panel(racer: Racer, batches: Sequence[Batch], largest: int) -> Panel:
    content = _last_batch(batches, largest) if batches else Text("the first batch is under way ...", "dim")
    return Panel(content, title=f"[bold]{NAMES[racer]}[/]", width=39)


def _last_batch(batches: Sequence[Batch], largest: int) -> RenderableType:
    batch = batches[-1]
    mean = batch.rows / len(batch.channel_rows)
    loads = Table.grid(padding=(0, 1))
    loads.add_column(justify="right", style="bold", min_width=3)
    loads.add_column(width=BAR_COLUMNS)
    loads.add_column(justify="right", min_width=6)
    for channel, rows in enumerate(batch.channel_rows):
        colour = "red" if rows > mean * FULL else "green"
        loads.add_row(str(channel), Bar(largest, 0, rows, width=BAR_COLUMNS, color=colour), f"{rows:,}")
    figures = Table.grid(padding=(0, 2))
    figures.add_row("imbalance", f"[bold]{batch.imbalance:.2f}[/] times the mean")
    figures.add_row("", sparkline([each.imbalance - 1 for each in batches][-SPARKLINE_COLUMNS:]))
    figures.add_row("batch time", f"[bold]{batch.seconds:.1f} s[/]")
    figures.add_row("moves so far", f"[bold]{batch.moves}[/]")
    return Group(Text(f"rows per channel, {mean:,.0f} if balanced", "dim"), loads, Text(), figures)


def _progress(race: Race, settings: Settings) -> Table:
    progress = Table.grid(padding=(0, 2))
    for racer in RACERS:
        ended = len(race.batches[racer])
        done = Bar(settings.batches, 0, ended, width=40, color="cyan")
        progress.add_row(f" {NAMES[racer]}", done, f"batch {ended} of {settings.batches}")
    return progress


def sparkline(values: Sequence[float]) -> str:
    """Return one block per value, the largest at full height.

    Examples
    --------
    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    largest = max(values, default=0.0) or 1.0
    return "".join(BLOCKS[round(value / largest * (len(BLOCKS) - 1))] for value in values)


def comparison(race: Race) -> list[tuple[str, str, str, str]]:
    """Return the closing table as text: what, under Spark's hash, under unskew, and how they compare.

    Both racers must have ended a batch.
    """
    hashed, balanced = (race.figures(racer) for racer in RACERS)
    return [
        _compared("throughput, rows/s", hashed.rows_per_second, balanced.rows_per_second, ",.0f"),
        _compared("batch time p50, s", hashed.p50_seconds, balanced.p50_seconds, ".2f"),
        _compared("batch time p99, s", hashed.p99_seconds, balanced.p99_seconds, ".2f"),
        _compared("fullest channel, mean = 1", hashed.mean_imbalance, balanced.mean_imbalance, ".2f"),
        ("moves", f"{hashed.moves}", f"{balanced.moves}", ""),
    ]


def _compared(what: str, hashed: float, balanced: float, form: str) -> tuple[str, str, str, str]:
    return what, format(hashed, form), format(balanced, form), f"{balanced / hashed:.2f}x"


def closing_table(race: Race) -> Table:
    """Return the closing table; both racers must have ended a batch."""
    table = Table(title=f"[bold]{counted(race.figures('hash'))}[/]", title_justify="left")
    table.add_column("")
    for name in (*NAMES.values(), "ratio"):
        table.add_column(name, justify="right")
    for row in comparison(race):
        table.add_row(*row)
    verdict = "[green]yes[/]" if race.same_result else "[bold red]NO[/]"
    table.add_row("same result", "", verdict, "")
    return table


def counted(figures: Figures) -> str:
    """Return what the figures are over."""
    return f"{figures.batches} batches that both ended, after the first {WARM_UP_BATCHES}"
