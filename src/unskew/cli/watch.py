"""``unskew watch``, ``unskew top`` and ``unskew history``: what a query did and why, from its checkpoint alone."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from rich.console import Console
from typer import Argument, Option

from unskew.cli.output import Json, console, print_json

Checkpoints = Annotated[list[str], Argument(metavar="CHECKPOINT...", help="A query's checkpointLocation, or several.")]
LOOK_SECONDS = 1.0
WIDTH = 110  # of the table of decisions, in columns


def watch(
    checkpoint: Checkpoints,
    port: Annotated[int, Option(help="Which port to listen on.", show_default="a free one")] = 0,
    host: Annotated[str, Option(help="Which address to listen on. There is no password.")] = "127.0.0.1",
    name: Annotated[
        list[str] | None, Option(help="Another host name under which the page may be opened. Repeat for more.")
    ] = None,
    html: Annotated[Path | None, Option(metavar="FILE", help="Write the page to one file, and end.")] = None,
    open_: Annotated[bool, Option("--open/--no-open", help="Open a browser.")] = True,
    json_output: Json = False,
) -> None:
    """Show a live page on balanced queries, from their checkpoints alone.

    The queries may run, have stopped or have crashed.
    Tap a plot to see why a batch was planned so.

    [bold]Examples[/]
    [cyan]unskew watch /checkpoints/clicks[/]
    [cyan]unskew watch s3://bucket/clicks s3://bucket/orders --port 9500[/]
    [cyan]unskew watch /checkpoints/clicks --html clicks.html[/]
    """
    from unskew.watch.checkpoints import open_history

    queries = {each: open_history(each) for each in checkpoint}
    if html is not None:
        from unskew.watch.page import as_html

        html.write_text(as_html({each: list(found.refresh().values()) for each, found in queries.items()}), "utf-8")
        _say(json_output, "page", str(html.resolve()), "The page: {}")
        return
    from unskew.watch.browser import open_page
    from unskew.watch.server import Server

    server = Server(queries, port, host, tuple(name or ()))
    _say(json_output, "url", server.url, "Watching at {} until Ctrl-C.")
    if open_:
        open_page(server.url)
    _until_interrupted()
    server.stop()


def top(checkpoint: Checkpoints, json_output: Json = False) -> None:
    """Show balanced queries live in the terminal: load, hot keys, time saved.

    Where there is no terminal, prints the queries as they are, once.
    With --json, prints the figures of each query's last batch.

    [bold]Examples[/]
    [cyan]unskew top /checkpoints/clicks[/]
    [cyan]unskew top /checkpoints/clicks --json[/]
    """
    from rich.live import Live

    from unskew.watch.checkpoints import open_history
    from unskew.watch.terminal import picture

    queries = {each: open_history(each) for each in checkpoint}

    if json_output:
        last = {each: list(found.refresh().values())[-1:] for each, found in queries.items()}
        print_json({each: figures[0].as_dict() if figures else None for each, figures in last.items()})
        return

    def now() -> object:
        return picture({each: list(found.refresh().values()) for each, found in queries.items()})

    if not console.is_terminal:
        console.print(now())
        return
    try:
        with Live(console=console, auto_refresh=False, screen=True) as live:
            while True:
                live.update(now(), refresh=True)  # type: ignore[arg-type]
                time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        return


def history(
    checkpoint: Annotated[str, Argument(metavar="CHECKPOINT", help="A query's checkpointLocation.")],
    last: Annotated[int, Option(help="How many of the last plans to show.")] = 50,
    json_output: Json = False,
) -> None:
    """List what was decided in each batch, and what came of it.

    Figures are loads of the fullest channel, as times the mean.
    The bound is what no plan can beat while keys are whole.
    Cost is the time for planning and moving.
    Gained is the work that the fullest channel was relieved of.

    [bold]Examples[/]
    [cyan]unskew history /checkpoints/clicks[/]
    [cyan]unskew history /checkpoints/clicks --last 10 --json[/]
    """
    from unskew.runtime.decisions import decisions
    from unskew.watch.checkpoints import open_history

    made = decisions(list(open_history(checkpoint).refresh().values()))[-last:]
    if json_output:
        print_json(made)
        return
    from unskew.watch.terminal import table

    if made:
        Console(width=max(console.width, WIDTH), highlight=False).print(table(made))
    else:
        console.print("No batch was planned yet. Batches that Spark combines, or that are small, need no plan.")


def _say(as_json: bool, name: str, value: str, sentence: str) -> None:
    if as_json:
        print_json({name: value})
    else:
        console.print(sentence.format(value), soft_wrap=True, markup=False)


def _until_interrupted() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        console.print()
