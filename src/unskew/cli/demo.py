"""``unskew demo``: what skew does to a stateful stream, live."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unskew.cli.output import Json, console, print_json


def demo(
    batches: Annotated[int, typer.Option(help="How many batches; after a minute of them it ends anyway.")] = 16,
    rows: Annotated[int, typer.Option(help="Rows per batch.")] = 20_000,
    channels: Annotated[int, typer.Option(help="How many channels (state partitions).")] = 8,
    out: Annotated[Path, typer.Option(help="Where to write the page with the plots.")] = Path("unskew-demo.html"),
    json_output: Json = False,
) -> None:
    """Watch how Spark's own hash partitioning leaves one channel with twice the work.

    Starts an embedded Spark, runs a drifting Zipf stream through a stateful count per key, and shows rows per channel,
    the hot keys, the imbalance, and how much shorter batches would be if balanced. Ends by itself within two minutes.

    [bold]Examples[/]
    [cyan]unskew demo[/]                            about a minute, live bars, then a page with plots
    [cyan]unskew demo --batches 40 --channels 4[/]  more batches, fewer channels
    [cyan]unskew demo --json --batches 4[/]         the measurements for programs
    """
    from unskew.demo.run import run
    from unskew.demo.settings import Settings
    from unskew.demo.view import LiveView, NoView, PlainView, View, conclusion

    settings = Settings(batches=batches, rows=rows, channels=channels)
    view: View = NoView() if json_output else (LiveView if console.is_terminal else PlainView)(console, settings)
    result = run(settings, view, out)
    if json_output:
        print_json(result.as_dict())
    elif result.batches:
        console.print(conclusion(result.summary), soft_wrap=not console.is_terminal)
        console.print(f"The plots: {result.page}", soft_wrap=True)
    if result.interrupted:
        if not json_output:
            console.print("Stopped.")
        raise typer.Exit(130)
