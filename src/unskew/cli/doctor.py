"""``unskew doctor``: what is installed, and whether it fits together."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table
from typer import Option

from unskew.cli.output import Json, console, errors, print_json

MARKS = {True: "[green]yes[/]", False: "[bold red]no[/]", None: "[dim]-[/]"}


def doctor(
    with_spark: Annotated[bool, Option("--spark", help="Also run a small query on Spark: 15 seconds or so.")] = False,
    json_output: Json = False,
) -> None:
    """Look at Python, Java, packages and the machine, and say whether they fit together.

    Exits with 1 when something does not fit.

    [bold]Examples[/]
    [cyan]unskew doctor[/]          a table, within a second or two
    [cyan]unskew doctor --spark[/]  also tries Spark, its workers and a balanced stream
    [cyan]unskew doctor --json[/]   the same for programs
    """
    from unskew.doctor import examine

    with errors.status("looking ..."):
        findings = list(examine(with_spark))
    fits = all(finding.fits is not False for finding in findings)
    if json_output:
        print_json({"fits": fits, "findings": [dataclasses.asdict(finding) for finding in findings]})
    else:
        table = Table("what", "found", "fits", box=None, pad_edge=False)
        for finding in findings:
            hint = f"\n[yellow]{escape(finding.hint)}[/]" if finding.hint else ""
            table.add_row(finding.name, escape(finding.found) + hint, MARKS[finding.fits])
        console.print(table)
        console.print("[green]Everything fits.[/]" if fits else "[bold red]Something does not fit, see above.[/]")
    raise typer.Exit(0 if fits else 1)
