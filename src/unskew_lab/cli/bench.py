"""``unskew bench``: run benchmarks, print their rows, keep them by commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from unskew.cli.options import require_file, require_folder
from unskew.cli.output import Json, console, errors, print_json, print_list
from unskew.errors import ArgumentError

EVERYTHING = "all"
PAGES = (".html", ".md")


def bench(
    name: Annotated[str | None, typer.Argument(help="Which benchmark, or all; see --list.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Less of everything; ends within three minutes.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the benchmarks.")] = False,
    only: Annotated[str | None, typer.Option(help="With all: only these, with commas between them.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to keep the result; with all, a folder.  [default: artifacts/bench/COMMIT]"),
    ] = None,
    page: Annotated[
        list[Path] | None, typer.Option(help="Write a page as well: .html with plots, or .md. May be repeated.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="soak: how long it runs.  [default: 30]")] = None,
    case: Annotated[str | None, typer.Option(help="load: only this case.")] = None,
    json_output: Json = False,
) -> None:
    """Measure how fast unskew is, side by side with the alternatives.

    Keeps results in artifacts/bench by commit and configuration, with spread and all samples. If files have changed
    since the commit, its name begins with dirty-.

    [bold]Examples[/]
    [cyan]unskew bench --list[/]                              what can be measured
    [cyan]unskew bench routing --quick[/]                     a table within a minute
    [cyan]unskew bench routing --json --out r.json[/]         for programs, and in a file
    [cyan]unskew bench soak --minutes 30[/]                   does anything grow; Ctrl-C keeps what is there
    [cyan]unskew bench all --quick --page bench.html[/]       everything within twenty minutes, with plots
    """
    from unskew_lab.bench import benchmarks, store
    from unskew_lab.bench.suite import together

    if listing:
        print_list([{"name": each, "summary": benchmarks[each].summary} for each in benchmarks], json_output)
        return
    if name is None:
        raise ArgumentError("no benchmark is named", hint="name one, or see them with unskew bench --list")
    for path in page or []:
        require_file("--page", path, PAGES)
    if name == EVERYTHING:
        for option, given in (("--minutes", minutes), ("--case", case)):
            if given is not None:
                hint = f"name that benchmark instead of {EVERYTHING}"
                raise ArgumentError("this is an option of one benchmark", where=option, got=given, hint=hint)
        _everything(only.split(",") if only else together(), quick, out, page or [], json_output)
        return
    benchmark = benchmarks[name]()
    benchmark.choose(minutes=minutes, case=case)
    if only is not None:
        raise ArgumentError(f"this works with {EVERYTHING} alone", where="--only", got=only, hint="leave it out")
    if out is not None:
        require_file("--out", out)
    with errors.status(f"measuring {name} ...") as status:
        benchmark.tell = lambda text: status.update(f"measuring {name}: {text}")
        record = store.measure(benchmark, quick)
    path = out or store.place(name, quick)
    store.save(record, path)
    if json_output:
        print_json(store.printed(record))
    else:
        console.print(_table(record))
        for note in record["notes"]:
            console.print(escape(note), soft_wrap=True)
        console.print(f"[dim]kept in {path}; with plots: unskew report {path}[/]", soft_wrap=True)
    _write_pages([record], page or [])


def _everything(names: list[str], quick: bool, out: Path | None, pages: list[Path], json_output: bool) -> None:
    from unskew_lab.bench import benchmarks, store
    from unskew_lab.bench.suite import in_order, run_each

    if out is not None:
        require_folder("--out", out)
    folder = out or store.place("", quick).parent
    records = []
    ordered = in_order(benchmarks[name].name for name in names)
    with errors.status(f"measuring {ordered[0]} ...") as status:
        for place, record in enumerate(run_each(ordered, quick), start=1):
            records.append(record)
            store.save(record, folder / store.place(record["benchmark"], quick).name)
            if not json_output:
                console.print(_line(record), soft_wrap=True)
            if place < len(ordered):
                status.update(f"measuring {ordered[place]} ...")
    if json_output:
        print_json([store.printed(record) for record in records])
    else:
        console.print(f"[dim]kept in {folder}; with plots: unskew report {folder}[/]", soft_wrap=True)
    _write_pages(store.newest(store.load(path) for path in sorted(folder.glob("*.json"))), pages)


def _write_pages(records: list[dict[str, Any]], pages: Iterable[Path]) -> None:
    from unskew_lab.report import write_benchmarks

    for path in pages:
        errors.print(f"{write_benchmarks(records, path)} written")


def _line(record: Mapping[str, Any]) -> str:
    judged = [row["met"] for row in record["rows"] if row["met"] is not None]
    took = "" if record["took_seconds"] is None else f" in {record['took_seconds']:,.0f} s"
    targets = f", {sum(judged)} of {len(judged)} targets met" if judged else ""
    notes = "".join(f"\n    {escape(note)}" for note in record["notes"])
    return f"[cyan]{record['benchmark']:<12}[/] {len(record['rows'])} rows{took}{targets}{notes}"


def _table(record: Mapping[str, Any]) -> Table:
    from unskew_lab.report.benchmarks import HEADINGS, NUMBERS, value

    table = Table(title=f"{record['benchmark']}  ({record['commit']}, {record['machine']['cores']} cores)")
    own = record.get("table", {"headings": HEADINGS, "numbers": NUMBERS})
    for place, heading in enumerate(own["headings"]):
        table.add_column(heading, justify="right" if place in own["numbers"] else "left")
    if "table" in record:
        for cells in own["rows"]:
            table.add_row(*map(escape, cells))
        return table
    verdicts = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}
    for row in record["rows"]:
        table.add_row(
            escape(row["name"]),
            escape(row["contender"]),
            value(row),
            *(f"{row[each]:,.3g}" if row[each] is not None else "" for each in ("spread", "ratio", "target")),
            verdicts[row["met"]],
        )
    return table
