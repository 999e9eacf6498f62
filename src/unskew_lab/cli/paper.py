"""``unskew paper``: run a paper's experiments and say which of its claims hold."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from unskew.cli.options import require_file, require_folder
from unskew.cli.output import Json, console, print_json, print_list
from unskew.errors import ArgumentError

if TYPE_CHECKING:
    from unskew_lab.experiments.claims import Claim

COLOURS = {"confirmed": "green", "refuted": "red", "not comparable": "yellow"}


def paper(
    name: Annotated[str | None, typer.Argument(help="Whose experiments; see --list.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A reduced grid that ends within a few minutes.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the papers.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results, figures and claims.  [default: artifacts/paper-NAME]")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Write an HTML page with claims and figures as well.")] = None,
    json_output: Json = False,
) -> None:
    """Run a paper's experiments as a Spark job and judge its claims.

    Writes results.parquet, the figures and claims.json.

    [bold]Examples[/]
    [cyan]unskew paper --list[/]          which papers there are
    [cyan]unskew paper gedik --quick[/]   a few minutes
    [cyan]unskew paper gedik --json[/]    the whole grid, verdicts for programs
    """
    from unskew_lab.experiments.base import EXPERIMENTS

    if listing:
        print_list([{"name": each, "summary": EXPERIMENTS[each].summary} for each in EXPERIMENTS], json_output)
        return
    if name is None:
        raise ArgumentError("no paper is named", hint="name one, or see them with unskew paper --list")
    experiment = EXPERIMENTS[name]()
    folder = out or Path("artifacts") / f"paper-{name}"
    require_folder("--out", folder)
    if page is not None:
        require_file("--page", page, (".html",))
    from unskew.spark import session

    with console.status(f"{len(experiment.trials(quick)):,} trials of {name} ..."):
        claims = experiment.run(session(), folder, quick)
    if page is not None:
        from unskew_lab.report import write_report

        write_report(folder, page)
    if json_output:
        print_json([dataclasses.asdict(claim) for claim in claims])
        return
    console.print(_table(claims))
    counted: Counter[str] = Counter(claim.verdict for claim in claims)
    console.print(", ".join(f"{counted[verdict]} {verdict}" for verdict in COLOURS) + f"; files in {folder}")
    console.print(f"[dim]as a page: unskew report {folder}[/]", soft_wrap=True)


def _table(claims: Sequence[Claim]) -> Table:
    table = Table()
    for heading in ("figure", "claim", "measured", "verdict"):
        table.add_column(heading)
    for claim in claims:
        colour = COLOURS[claim.verdict]
        table.add_row(claim.figure, escape(claim.claim), escape(claim.measured), f"[{colour}]{claim.verdict}[/]")
    return table
