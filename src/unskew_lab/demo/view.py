"""What the race shows while it runs: two panels of live bars on a terminal, plain lines elsewhere; then a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from rich.bar import Bar
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from unskew.bars import SPARKLINE_COLUMNS, sparkline
from unskew.watch.browser import open_page
from unskew_lab.demo.batch import Batch
from unskew_lab.demo.race import NAMES, RACERS, Figures, Migration, Race, Racer
from unskew_lab.demo.settings import Settings

STARTING = "starting Spark and its Python workers: twenty seconds or so ..."
BAR_COLUMNS = 21
FULL = 1.1  # a channel is drawn red from so many times the mean on


class NoView:
    """Shows the race; a context manager, so that a terminal is left in order. This one shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def page_is_at(self, url: str) -> None:
        """Say where the live page of the balanced query is."""

    def show(self, race: Race, racer: Racer) -> None:
        """Show that a racer has ended a batch."""

    def say(self, text: str) -> None:
        """Say what is going on now."""


class _View(NoView):
    def __init__(self, console: Console, settings: Settings, open_browser: bool = False) -> None:
        self._console, self._settings, self._open_browser = console, settings, open_browser

    def page_is_at(self, url: str) -> None:
        """Print where the page is, above any bars. It opens before the first batch, which does not count."""
        self._console.print(f"The query under unskew, live: {url}", soft_wrap=True)
        if self._open_browser:
            open_page(url)


class LiveView(_View):
    """Bars that are drawn anew after every batch."""

    def __init__(self, console: Console, settings: Settings, open_browser: bool = False) -> None:
        super().__init__(console, settings, open_browser)
        waiting = Spinner("dots", text=f" {STARTING}")
        self._shown: RenderableType = waiting
        self._live = Live(waiting, console=console, refresh_per_second=8, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, race: Race, racer: Racer) -> None:
        self._shown = picture(race, self._settings)
        self._live.update(self._shown, refresh=True)

    def say(self, text: str) -> None:
        self._live.update(Group(self._shown, Text(text, "bold")), refresh=True)


class PlainView(_View):
    """One line per batch."""

    def __enter__(self) -> Self:
        self._console.print(STARTING)
        self._console.print(f"{self._settings.cost}.", soft_wrap=True)
        return self

    def show(self, race: Race, racer: Racer) -> None:
        batch = race.batches[racer][-1]
        self._console.print(line(racer, batch), soft_wrap=True)
        if batch.number == 0 or set(_names(batch)) != set(_names(race.batches[racer][-2])):
            self._console.print(f"{'':<14}hottest: {hottest(batch)}", soft_wrap=True)
        for migration in race.migrations(racer, batch.number):
            self._console.print(f"{'':<14}{migration}", soft_wrap=True)

    def say(self, text: str) -> None:
        self._console.print(text)


def line(racer: Racer, batch: Batch) -> str:
    """Return one line on one batch.

    >>> line("unskew", Batch(3, 2.5, (600, 200), (1.8, 0.6), moves=7))
    'unskew        batch  3:  2.5 s, fullest channel 0 with 600 of 800 rows, 1.50 times the mean, 7 moves so far'
    """
    by_hash = "" if batch.hash_imbalance is None else f" ({batch.hash_imbalance:.2f} by Spark's hash)"
    return (
        f"{NAMES[racer]:<12}  batch {batch.number:>2}: {batch.seconds:>4.1f} s, "
        f"fullest channel {batch.fullest} with {max(batch.channel_rows):,} of {batch.rows:,} rows, "
        f"{batch.imbalance:.2f} times the mean{by_hash}, {batch.moves} moves so far"
    )


def hottest(batch: Batch) -> str:
    """Return the three hottest keys with their shares of the rows and their channels.

    >>> from unskew_lab.demo import HotKey
    >>> hottest(Batch(3, 2.5, (600, 200), (1.8, 0.6), (HotKey("user-7", 400, 0), HotKey("user-1", 40, 1))))
    'user-7 50 % on 0, user-1 5 % on 1'
    """
    return ", ".join(f"{key.name} {key.rows / batch.rows * 100:.0f} % on {key.channel}" for key in batch.hot_keys[:3])


def _names(batch: Batch) -> list[str]:
    return [key.name for key in batch.hot_keys[:3]]


def picture(race: Race, settings: Settings) -> RenderableType:
    """Return both racers' last batches side by side, the hot keys that moved last, and how far each has come."""
    largest = max((max(batches[-1].channel_rows) for batches in race.batches.values() if batches), default=1)
    panels = Table.grid(padding=(0, 1))
    panels.add_row(*(_panel(racer, race.batches[racer], largest) for racer in RACERS))
    return Group(
        panels,
        _progress(race, settings),
        *(Text(f" {migration}", "green") for migration in _last_migrations(race)),
        Text(f"Same stream, same function, by turns. {settings.cost.capitalize()}. Ctrl-C ends it.", "dim"),
    )


def _last_migrations(race: Race) -> list[Migration]:
    """Return up to three hot keys that changed their channel, in the last batch in which any did."""
    for number in reversed(range(len(race.batches["unskew"]))):
        found = race.migrations("unskew", number)
        if found:
            return found[:3]
    return []


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
    by_hash = batch.hash_imbalance
    figures.add_row("", "" if by_hash is None else f"[bold]{by_hash:.2f}[/] by Spark's hash")
    figures.add_row("batch time", f"[bold]{batch.seconds:.1f} s[/]")
    figures.add_row("moves so far", f"[bold]{batch.moves}[/]")
    hot = Table.grid(padding=(0, 1))
    for key in batch.hot_keys[:3]:
        share = f"{key.rows / batch.rows * 100:.0f} %"
        hot.add_row("hot:", f"[bold]{escape(key.name)}[/]", share, f"on channel [bold]{key.channel}[/]")
    return Group(Text(f"rows per channel, {mean:,.0f} if balanced", "dim"), loads, Text(), hot, figures)


def _progress(race: Race, settings: Settings) -> Table:
    progress = Table.grid(padding=(0, 2))
    for racer in RACERS:
        ended = len(race.batches[racer])
        done = Bar(settings.batches, 0, ended, width=40, color="cyan")
        progress.add_row(f" {NAMES[racer]}", done, f"batch {ended} of {settings.batches}")
    return progress


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
        ("hash, as unskew counts it", "", _or_nothing(balanced.mean_hash_imbalance), ""),
        ("moves", f"{hashed.moves}", f"{balanced.moves}", ""),
    ]


def _or_nothing(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _compared(what: str, hashed: float, balanced: float, form: str) -> tuple[str, str, str, str]:
    return what, format(hashed, form), format(balanced, form), f"{balanced / hashed:.2f}x"


def closing_table(race: Race, exact: bool | None = None) -> Table:
    """Return the closing table; both racers must have ended a batch. `exact` is what the recount said, if any."""
    table = Table(title=f"[bold]{counted(race.figures('hash'))}[/]", title_justify="left")
    table.add_column("")
    for name in (*NAMES.values(), "ratio"):
        table.add_column(name, justify="right")
    for row in comparison(race):
        table.add_row(*row)
    verdict = "[green]yes[/]" if race.same_result else "[bold red]NO[/]"
    table.add_row("same counts in every batch", "", verdict, "")
    recounted = {True: "[green]yes[/]", False: "[bold red]NO[/]", None: "not checked"}[exact]
    table.add_row("equal to a batch recount", recounted, recounted, "")
    return table


def what_next(kept: Path | None) -> str:
    """Return the closing lines: what to do now."""
    report = f"\n  unskew report {kept}   this race as a page again, to send to somebody" if kept else ""
    return f"""What next:{report}
  unskew run --dry-run --source parquet:DIR --key COLUMN --aggregate count --sink console   how skewed your own keys are
  unskew.balance(events, key="user") instead of events.groupBy("user")   one line in your own job
  make bench   the same with ten channels, other partitioners and other engines, within twenty minutes"""


def counted(figures: Figures) -> str:
    """Return what the figures are over."""
    return f"{figures.batches} batches that both ended, without the first one"
