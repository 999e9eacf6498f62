"""``unskew demo``: a race on a skewed stream, Spark's hash against unskew, live."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unskew.cli.options import require_file
from unskew.cli.output import Json, console, print_json


def demo(
    batches: Annotated[int, typer.Option(help="How many batches. The race ends after two minutes anyway.")] = 12,
    rows: Annotated[int, typer.Option(help="Rows per batch.")] = 10_000,
    channels: Annotated[int, typer.Option(help="How many channels, and partitions of Spark's own state.")] = 8,
    out: Annotated[Path, typer.Option(help="Where to write the page with the plots.")] = Path("unskew-demo.html"),
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the live page in a browser.")] = True,
    json_output: Json = False,
) -> None:
    """Watch a race: the same skewed stream under Spark's own hash and under unskew.

    Starts an embedded Spark and runs a drifting Zipf stream through the same stateful count twice, by turns. Shows hot
    keys, rows per channel, imbalance, batch times and moves of both. A live page shows the query under unskew, as
    [cyan]unskew watch[/] does. Then a batch job counts everything once more, and a table says how fast each side was
    and whether all counts are exact. Ends by itself.

    [bold]Examples[/]
    [cyan]unskew demo[/]                            three minutes, live bars, a table, a page with plots
    [cyan]unskew demo --batches 18 --channels 4[/]  more batches, fewer channels
    [cyan]unskew demo --json --batches 6[/]         the measurements for programs
    """
    import matplotlib  # noqa: F401 - the page at the end needs it; better missed now than after the race

    from unskew.machine import commit
    from unskew_lab.demo.run import run
    from unskew_lab.demo.settings import Settings
    from unskew_lab.demo.view import LiveView, NoView, PlainView, closing_table, what_next

    require_file("--out", out)
    out.parent.mkdir(parents=True, exist_ok=True)
    settings = Settings(batches=batches, rows=rows, channels=channels)
    view = NoView() if json_output else (LiveView if console.is_terminal else PlainView)(console, settings, open_)
    result = run(settings, view, out, Path("artifacts") / "demo" / commit() / "demo.json")
    if json_output:
        print_json(result.as_dict())
    elif result.page:
        console.print(closing_table(result.race, result.exact))
        console.print(f"The plots: {result.page}", soft_wrap=True)
        console.print(f"The query under unskew, batch by batch: {result.watch_page}", soft_wrap=True)
        console.print(what_next(result.kept), soft_wrap=True, markup=False)
    if result.interrupted:
        if not json_output:
            console.print("Stopped.")
        raise typer.Exit(130)
