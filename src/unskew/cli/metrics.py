"""``unskew metrics``: files for Grafana and Prometheus that use the metrics of balanced queries."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from unskew.cli.output import Json, print_json


class File(StrEnum):
    """What can be printed."""

    GRAFANA = "grafana"
    ALERTS = "alerts"


def metrics(
    file: Annotated[File, typer.Argument(help="A Grafana dashboard, or alert rules for Prometheus.")],
    json_output: Json = False,
) -> None:
    """Print a Grafana dashboard, or alert rules for Prometheus.

    Both use the metrics that query.serve_metrics() serves.
    With --json, prints where the file is and what it holds.

    [bold]Examples[/]
    [cyan]unskew metrics grafana > unskew.json[/]  to import in Grafana
    [cyan]unskew metrics alerts > unskew.yml[/]    for rule_files in prometheus.yml
    """
    from unskew.metrics import path_of

    path = path_of(file)
    text = path.read_text(encoding="utf-8")
    if json_output:
        print_json({"path": str(path), "text": text})
    else:
        typer.echo(text, nl=False)
