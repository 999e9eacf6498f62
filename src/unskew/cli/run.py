"""``unskew run``: a balanced query from options or a TOML file, with live bars."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from typer import Argument, Option

from unskew.bars import bars, counted
from unskew.cli.options import SOURCES, Column, Master, Schema, SourceOption, Tolerance, Where, Words, pairs
from unskew.cli.output import Json, console, errors, print_json, print_table

if TYPE_CHECKING:
    from unskew.jobs.dry_run import Preview, Skew
    from unskew.jobs.run import Outcome

WORTH_SPEEDUP = 1.05  # a smaller gain could be chance
SINKS = "parquet:DIR, csv:, json:, orc:, delta:, kafka:HOST:9092/TOPIC, console."
PLANS = "own: plan each batch by its own counts. ahead: by those of batches before."
INTERVAL = 'With --plan ahead, how often to plan: batches, or "30 seconds".'


def run(
    job_file: Annotated[Path | None, Argument(metavar="[JOB.toml]", help="A file with the same settings.")] = None,
    source: Annotated[str | None, Option(help=SOURCES)] = None,
    key: Annotated[str | None, Option(help="The key's columns, separated by commas.")] = None,
    aggregate: Annotated[str | None, Option(help='What to keep per key: "count, sum(amount) as total".')] = None,
    operator: Annotated[str | None, Option(help="Another operator, by name or as module:Class.")] = None,
    with_: Annotated[Words, Option("--with", metavar="NAME=VALUE", help="A parameter of the operator.")] = None,
    sink: Annotated[str | None, Option(help=SINKS)] = None,
    planner: Annotated[str | None, Option(help="Which planner. See unskew planners.", show_default="mixed")] = None,
    channels: Annotated[str | None, Option(help="How many, or auto.", show_default="the session's cores")] = None,
    tolerance: Tolerance = None,
    plan: Annotated[str | None, Option(help=PLANS, show_default="own")] = None,
    interval: Annotated[str | None, Option(help=INTERVAL, show_default="1")] = None,
    schema: Schema = None,
    column: Column = None,
    where: Where = None,
    watermark: Annotated[str | None, Option(help='Column and delay: "time 10 minutes".')] = None,
    source_option: SourceOption = None,
    sink_option: Annotated[Words, Option(metavar="NAME=VALUE", help="An option of the sink. Repeat for more.")] = None,
    checkpoint: Annotated[str | None, Option(help="Where progress is kept.", show_default="the sink's folder")] = None,
    follow: Annotated[bool | None, Option("--follow", help="Go on as rows arrive, until Ctrl-C.")] = None,
    every: Annotated[str | None, Option(help='With --follow: time between two batches, "5 seconds".')] = None,
    batches: Annotated[int | None, Option(help="End after this many batches.")] = None,
    master: Master = None,
    conf: Annotated[Words, Option(metavar="NAME=VALUE", help="A setting of Spark's. Repeat for more.")] = None,
    package: Annotated[Words, Option(metavar="COORDINATES", help="A package for Spark to fetch.")] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Check everything and plan for a sample. Write nothing.")
    ] = False,
    json_output: Json = False,
) -> None:
    r"""Run a balanced query without writing code, and watch its channels.

    Options on the command line win over the file.
    Each batch writes the rows of the keys that it touched.
    The job keeps its progress in a checkpoint: run it again, and it goes on.

    [bold]Examples[/]
    [cyan]unskew run --source parquet:clicks --key user --aggregate count \
        --sink parquet:out[/]
    [cyan]unskew run --source csv:clicks --key user --aggregate "sum(amount)" \
        --sink console --dry-run[/]
    [cyan]unskew run --source workload:zipf --key key --aggregate count \
        --sink console --batches 5[/]
    [cyan]unskew run job.toml --follow --every "10 seconds" --channels auto[/]
    """
    from unskew.jobs.settings import job_from, read_job_file

    given = {
        "source": source, "sink": sink, "key": key, "aggregate": aggregate, "operator": operator,
        "parameters": pairs(with_, "--with"), "source_options": pairs(source_option, "--source-option"),
        "sink_options": pairs(sink_option, "--sink-option"), "schema": schema, "columns": pairs(column, "--column"),
        "where": where, "watermark": watermark, "checkpoint": checkpoint, "follow": follow, "every": every,
        "batches": batches, "channels": _number_or_word(channels), "planner": planner,
        "tolerance": tolerance, "plan": plan, "interval": _number_or_word(interval), "master": master,
        "conf": pairs(conf, "--conf"), "packages": tuple(package or ()),
    }  # fmt: skip
    settings = {} if job_file is None else read_job_file(job_file)
    for name, value in given.items():
        if value not in (None, {}, ()):
            settings[name] = {**settings.get(name, {}), **value} if isinstance(value, dict) else value
    job = job_from(settings, "the options" if job_file is None else str(job_file))

    from unskew.jobs.run import own_or_running_session
    from unskew.jobs.run import run as run_job

    if dry_run:
        from unskew.jobs.dry_run import preview

        with errors.status("looking at a sample ..."), own_or_running_session(job) as spark:
            shown = preview(spark, job)
        if json_output:
            print_json(shown.as_dict())
        else:
            _print_preview(shown)
        return
    from unskew.jobs.view import LiveView, NoView, PlainView

    live = console.is_terminal and job.to_place.kind != "console"
    outcome = run_job(job, NoView() if json_output else (LiveView if live else PlainView)(console, job))
    if json_output:
        print_json(outcome.as_dict())
    else:
        _print_outcome(outcome)
    if outcome.interrupted:
        raise typer.Exit(130)


def _number_or_word(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.strip().isdecimal() else text


def _print_outcome(outcome: Outcome) -> None:
    ending = "Stopped" if outcome.interrupted else "Done"
    done = f"{counted(outcome.rows, 'row')} in {counted(len(outcome.batches), 'batch')}, {outcome.seconds:.1f} s"
    started = f" (and {outcome.spark_seconds:.1f} s to start Spark)" if outcome.spark_seconds >= 1 else ""
    console.print(f"{ending}: {done}{started}.", soft_wrap=True)
    if outcome.interrupted and outcome.checkpoint is not None:
        console.print("The same command goes on where this one ended.")


def _print_preview(shown: Preview) -> None:
    done = counted(shown.batches_done, "batch")
    progress = f"{shown.checkpoint}\n{f'goes on after {done}' if shown.batches_done else 'begins anew'}"
    rows = {
        "source": f"{shown.source}\n{shown.input_columns}",
        "key": shown.key,
        "operator": shown.operator,
        "sink": f"{shown.sink}\n{shown.output_columns}",
        "when": shown.trigger,
        "progress": "not kept: every run begins anew" if shown.checkpoint is None else progress,
        "channels": str(shown.channels),
        "planner": shown.planner,
    }
    print_table({name: escape(value) for name, value in rows.items()})
    if shown.skew is None:
        console.print("\nThere are no rows yet, so nothing can be said about the key's skew.")
    else:
        _print_skew(shown.skew)


def _print_skew(skew: Skew) -> None:
    sampled = f"{counted(skew.rows, 'row')} sampled, {counted(skew.distinct_keys, 'key')}"
    console.print(f"\n[bold]hottest keys[/]  {sampled}")
    names, shares = [key.key for key in skew.hot_keys], [key.share for key in skew.hot_keys]
    console.print(bars(names, shares, notes=[f"{share:.1%}" for share in shares], mean=1.0))
    what = "combined rows" if skew.combined else "rows"
    for title, loads in (("by hash", skew.loads_before), ("as unskew would place them", skew.loads_after)):
        console.print(f"\n[bold]{what} per channel {title}[/]  {sum(loads) / len(loads):,.0f} if balanced")
        console.print(bars([str(i) for i in range(len(loads))], loads, notes=[f"{load:,.0f}" for load in loads]))
    console.print(f"\n{_combined_gain(skew) if skew.combined else _gain(skew)}", soft_wrap=True)


def _gain(skew: Skew) -> str:
    report = skew.report
    gain = (
        f"The fullest channel has [bold]{1 + report.overload_before:.2f}[/] times the mean by hash, "
        f"[bold]{1 + report.overload_after:.2f}[/] planned: a batch bound by it would be "
        f"[bold]{skew.speedup:.2f}[/] times as fast. Keys with an entry of their own: {report.moved_keys:,}."
    )
    if skew.unsplittable:
        heavy = ", ".join(map(escape, skew.unsplittable[:5]))
        gain += f"\nToo heavy for one channel on their own: {heavy}. One owner per key cannot do better."
    return gain


def _combined_gain(skew: Skew) -> str:
    gain = f"A batch would be about [bold]{skew.speedup:.2f}[/] times as fast."
    if skew.speedup < WORTH_SPEEDUP:
        gain = (
            "Balance would bring [bold]little or nothing[/] here. "
            "It pays where every row reaches its channel, as in functions per key and joins."
        )
    return (
        f"This operator combines rows where they are read: of {counted(skew.rows, 'row')} about "
        f"{sum(skew.loads_before):,.0f} reach the channels, and a hot key is one row of each partition. {gain}"
    )
