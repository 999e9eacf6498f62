"""``unskew metrics``: files for Grafana and Prometheus that use the metrics of balanced queries."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class File(StrEnum):
    """What can be printed."""

    GRAFANA = "grafana"
    ALERTS = "alerts"


def metrics(file: Annotated[File, typer.Argument(help="A Grafana dashboard, or alert rules for Prometheus.")]) -> None:
    """Print a Grafana dashboard, or alert rules for Prometheus.

    Both use the metrics that a query serves: see `query.serve_metrics()`.

    [bold]Examples[/]
    [cyan]unskew metrics grafana > unskew.json[/]  then, in Grafana: Dashboards, New, Import
    [cyan]unskew metrics alerts > unskew.yml[/]    then name it under rule_files in prometheus.yml
    """
    from unskew.metrics import example

    typer.echo(example(file), nl=False)
