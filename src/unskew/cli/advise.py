"""``unskew advise``: what skew costs, and what each remedy would bring, before anyone changes code."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape
from rich.table import Table
from typer import Argument, Option

from unskew.bars import bars
from unskew.cli.options import Column, Master, Schema, SourceOption, Where, Words, pairs
from unskew.cli.output import Json, console, errors, print_json

if TYPE_CHECKING:
    from unskew.advice.advice import Advice

SOURCE = "parquet:DIR, csv:, json:, orc:, kafka:HOST:9092/TOPIC, eventlog:FILE, or checkpoint:DIR."
WEIGHT = "With a checkpoint: what a key weighs, in SQL over key and value."
PARTITIONS_SHOWN = 16


def advise(
    source: Annotated[str, Argument(metavar="SOURCE", help=SOURCE)],
    key: Annotated[str | None, Option(help="The key's columns, separated by commas. For rows.")] = None,
    partitions: Annotated[
        int | None, Option(help="How many partitions the job has. For rows.", show_default="Spark's setting")
    ] = None,
    cores: Annotated[int | None, Option(help="How many tasks run at once.", show_default="this machine's")] = None,
    seconds: Annotated[float | None, Option(help="How long a batch of these rows takes now.")] = None,
    weight: Annotated[str | None, Option(metavar="SQL", help=WEIGHT, show_default="a count, or bytes")] = None,
    html: Annotated[Path | None, Option(metavar="FILE", help="Write a page to send to a colleague.")] = None,
    schema: Schema = None,
    column: Column = None,
    where: Where = None,
    source_option: SourceOption = None,
    master: Master = None,
    conf: Annotated[Words, Option(metavar="NAME=VALUE", help="A setting of Spark's. Repeat for more.")] = None,
    json_output: Json = False,
) -> None:
    r"""Say which keys are hot, what their skew costs, and what would help.

    Looks at rows, at an event log, or at the checkpoint of Spark's own query.
    Changes nothing. Says so if there is nothing to gain.

    [bold]Examples[/]
    [cyan]unskew advise parquet:clicks --key user --cores 8[/]
    [cyan]unskew advise eventlog:/logs/local-1700000000 --html skew.html[/]
    [cyan]unskew advise checkpoint:/checkpoints/clicks --json[/]
    """
    from unskew.advice.command import Asked, answer

    asked = Asked(
        source=source,
        key=key,
        partitions=partitions,
        cores=cores,
        seconds=seconds,
        weight=weight,
        schema=schema,
        columns=pairs(column, "--column"),
        where=where,
        source_options=pairs(source_option, "--source-option"),
        master=master,
        conf=pairs(conf, "--conf"),
    )
    with errors.status("looking ..."):
        advice = answer(asked)
    if html is not None:
        html.write_text(advice.as_html(), "utf-8")
    if json_output:
        print_json({**dataclasses.asdict(advice), "page": None if html is None else str(html.resolve())})
        return
    _print(advice)
    if html is not None:
        console.print(f"\nThe page: {html.resolve()}", soft_wrap=True, markup=False)


def _print(advice: Advice) -> None:
    from unskew.advice.words import cost, facts
    from unskew.watch.words import duration

    console.print(f"[bold]{escape(advice.found.source)}[/]", soft_wrap=True)
    console.print(facts(advice), style="dim", markup=False)
    if advice.hot_keys:
        console.print("\n[bold]heaviest keys[/]")
        shares = [key.share for key in advice.hot_keys]
        names = [key.key for key in advice.hot_keys]
        fair = 1 / advice.cores
        console.print(bars(names, shares, notes=[f"{share:.1%}" for share in shares], mean=fair, tolerance=0.0))
    loads = advice.partition_loads
    shown = sorted(sorted(range(len(loads)), key=lambda place: -loads[place])[:PARTITIONS_SHOWN])
    console.print(f"\n[bold]{escape(advice.found.unit)} per partition[/]")
    mean = sum(loads) / len(loads)
    heights = [loads[place] for place in shown]
    notes = [f"{each:,.4g}" if each < 1000 else f"{each:,.0f}" for each in heights]
    console.print(bars([str(place) for place in shown], heights, notes=notes, mean=mean))
    table = Table(box=None, pad_edge=False)
    for name in ("remedy", "tasks", "fullest / mean", "batch", "times as fast"):
        table.add_column(name, justify="left" if name == "remedy" else "right")
    for each in advice.remedies:
        mark = " *" if each.condition else ""
        batch = "" if advice.seconds is None else duration(each.seconds)
        style = "bold" if each.name == advice.best else None
        table.add_row(
            f"{each.name}{mark}", str(each.tasks), f"{each.imbalance:.2f}", batch, f"{each.gain:.2f}", style=style
        )
    console.print()
    console.print(table)
    conditions = dict.fromkeys(each.condition for each in advice.remedies if each.condition)
    for condition in conditions:
        console.print(f"* {condition}", style="dim")
    console.print(f"\n[bold]{escape(advice.verdict)}[/]")
    console.print(cost(advice))
    if advice.change:
        console.print(f"\n  {advice.change}\n", markup=False, soft_wrap=True)
    console.print(f"{advice.found.method} {advice.found.error}", style="dim", markup=False)
