"""A query in a terminal: bars, figures at a glance, the story of the last batch, and a table of decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from unskew.bars import SPARKLINE_COLUMNS, bars, size, sparkline
from unskew.runtime.decisions import Decision
from unskew.watch.series import Batches, levels, loads
from unskew.watch.words import duration, glance, why


def picture(queries: Mapping[str, Batches]) -> RenderableType:
    """Return all queries, one below the other."""
    return Group(*(part for name, batches in queries.items() for part in _query(name, batches)))


def _query(name: str, batches: Batches) -> list[RenderableType]:
    title = Text(name, "bold")
    if not batches:
        return [title, Text("no batch has ended yet", "dim"), Text()]
    last = next((batch for batch in reversed(batches) if batch.rows), batches[-1])
    load, (mean, _) = loads(last)["load"], levels(last)
    unit = "seconds of work" if last.measured else "rows"
    notes = [f"{value:,.2f}" if last.measured else f"{value:,}" for value in load]
    figures = Table.grid(padding=(0, 2))
    for what, (value, made_of) in glance(batches).items():
        figures.add_row(what, f"[bold]{escape(value)}[/]", f"[dim]{escape(made_of)}[/]")
    recent = batches[-SPARKLINE_COLUMNS:]
    figures.add_row("Overload", sparkline([batch.imbalance - 1 for batch in recent]), "[dim]of the last batches[/]")
    hot = "  ".join(f"{key.key} {key.share:.0%}" for key in last.hot_keys)
    return [
        title,
        Text(f"batch {last.batch_id}: {unit} per channel, {mean:,.2f} if balanced", "dim"),
        bars([str(channel) for channel in range(len(load))], load, notes=notes, mean=mean),
        figures,
        Text(f"hot keys  {hot}" if hot else ""),
        *(Text(sentence, "dim") for sentence in why(last)),
        Text(),
    ]


def table(made: Sequence[Decision]) -> Table:
    """Return decisions, one a line; times the mean, as everywhere on a screen."""
    shown = Table(box=None, header_style="bold")
    for name in ("batch", "reason", "planner"):
        shown.add_column(name, justify="right" if name == "batch" else "left", no_wrap=True)
    for name in ("before", "planned", "bound", "measured", "next", "moves", "bytes", "cost", "gained"):
        shown.add_column(name, justify="right", no_wrap=True)
    for each in made:
        met = None if each.gain_next is None else each.overload_before - each.gain_next
        overloads = (each.overload_before, each.overload_after, each.overload_bound, each.overload_measured, met)
        shown.add_row(
            str(each.batch_id),
            each.reason,
            each.planner,
            *("" if overload is None else f"{1 + overload:.2f}" for overload in overloads),
            f"{each.moved_keys + each.moved_slots:,}",
            size(each.moved_bytes),
            duration(each.cost_seconds),
            duration(each.gained_seconds),
        )
    return shown
