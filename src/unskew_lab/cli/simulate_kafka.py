"""``unskew simulate kafka``: how long messages wait in a topic under skew, with and without a gateway."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import Progress
from rich.table import Table

from unskew.cli.output import console, print_json
from unskew.errors import ArgumentError

if TYPE_CHECKING:
    from unskew_lab.simulation.queueing import Gateway, Topic


def simulate_kafka(
    topic: Topic, gateway: Gateway, contenders: list[str], progress: Progress, folder: Path, json_output: bool
) -> None:
    """Simulate all contenders on the same messages; print them side by side and draw them."""
    from unskew_lab.simulation.queueing import simulate_queues
    from unskew_lab.simulation.queueing.figures import draw_runs
    from unskew_lab.simulation.queueing.run import require_contender

    for contender in contenders:
        require_contender(contender)
    runs = []
    with progress:
        task = progress.add_task("messages", total=len(contenders) + 1)
        arrivals = topic.arrivals()
        for contender in contenders:
            progress.update(task, advance=1, description=contender)
            runs.append(simulate_queues(topic, contender, gateway=gateway, arrivals=arrivals))
    path = folder / "kafka.png"
    draw_runs(runs, path)
    totals = {run.contender: run.totals(gateway.interval_seconds) for run in runs}
    if json_output:
        decisions = [decision for run in runs for decision in run.decisions]
        print_json({"runs": totals, "decisions": decisions, "topic": topic, "plot": path})
        return
    console.print(_table(totals))
    console.print(f"plot in {path}")


def _table(totals: dict[str, dict[str, Any]]) -> Table:
    table = Table(title="delays in microseconds; warm: without the first window")
    table.add_column("")
    for contender in totals:
        table.add_column(contender, justify="right")
    for name in next(iter(totals.values())):
        if name != "contender":
            table.add_row(name.replace("_", " "), *(_number(figures[name]) for figures in totals.values()))
    return table


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def hot_keys(text: str) -> tuple[str, float]:
    """Read what is hot: ``share:0.001``, ``abs:100`` or ``cover:0.5``."""
    hot_by, _, threshold = text.partition(":")
    try:
        return hot_by, float(threshold)
    except ValueError:
        hint = "give share:0.001, abs:100 or cover:0.5"
        raise ArgumentError("this does not say which keys are hot", got=text, hint=hint) from None
