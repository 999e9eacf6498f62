"""``unskew bench``: run one benchmark and print its rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from unskew.cli.output import Json, console, errors, print_json, print_list
from unskew.errors import ArgumentError


def bench(
    name: Annotated[str | None, typer.Argument(help="Which benchmark; see --list.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes; ends within a minute.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the benchmarks.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the JSON report to this file as well.")] = None,
    json_output: Json = False,
) -> None:
    """Measure how fast unskew is, side by side with the alternatives.

    [bold]Examples[/]
    [cyan]unskew bench --list[/]                        what can be measured
    [cyan]unskew bench routing --quick[/]               a table within a minute
    [cyan]unskew bench routing --json --out r.json[/]   for programs, and in a file
    """
    from unskew.bench import benchmarks, report

    if listing:
        print_list([{"name": each, "summary": benchmarks[each].summary} for each in benchmarks], json_output)
        return
    if name is None:
        raise ArgumentError("which benchmark", hint="name one, or see them with unskew bench --list")
    benchmark = benchmarks[name]()
    with errors.status(f"measuring {name} ..."):
        result = report(name, benchmark.run(quick))
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(result, indent=2) + "\n")
    if json_output:
        print_json(result)
    else:
        console.print(_table(result))


def _table(result: dict[str, Any]) -> Table:
    table = Table(title=f"{result['benchmark']}  ({result['commit']}, {result['machine']['cores']} cores)")
    for heading in ("what", "contender"):
        table.add_column(heading)
    for heading in ("value", "ratio", "target"):
        table.add_column(heading, justify="right")
    table.add_column("met")
    verdicts = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}
    for row in result["rows"]:
        ratio = f"{row['ratio']:.3g}" if row["ratio"] is not None else ""
        target = f"{row['target']:,.4g}" if row["target"] is not None else ""
        value = f"{row['value']:,.4g} {row['unit']}"
        table.add_row(row["name"], row["contender"], value, ratio, target, verdicts[row["met"]])
    return table
