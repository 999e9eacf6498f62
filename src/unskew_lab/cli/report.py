"""``unskew report``: results as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unskew.cli.output import Json, console, print_json


def report(
    run: Annotated[Path, typer.Argument(help="What bench, paper or demo has kept: a file or a folder.")],
    out: Annotated[Path, typer.Option(help="The page; for benchmarks, a name in .md makes it Markdown.")] = Path(
        "unskew-report.html"
    ),
    json_output: Json = False,
) -> None:
    """Turn results into one HTML page with the plots inside, for any browser, phones too.

    [bold]Examples[/]
    [cyan]unskew report artifacts/bench/32a4d7d0c1f2[/]                  all benchmarks of a commit
    [cyan]unskew report artifacts/paper-gedik --out gedik.html[/]        a paper's claims and figures
    [cyan]unskew report artifacts/bench/32a4d7d0c1f2 --out page.md[/]    benchmarks as Markdown
    """
    from unskew_lab.report import write_report

    page = write_report(run, out)
    if json_output:
        print_json({"page": page})
    else:
        console.print(f"The page: {page}", soft_wrap=True)
