"""``unskew run``: a balanced query from options or a TOML file, with live bars."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from unskew.bars import bars
from unskew.cli.output import Json, console, errors, print_json
from unskew.errors import ArgumentError

if TYPE_CHECKING:
    from unskew.jobs.dry_run import Preview, Skew
    from unskew.jobs.run import Outcome

Pairs = list[str] | None

WORTH_SPEEDUP = 1.05
"""Below, a faster batch is not to be told from chance."""


def run(
    job_file: Annotated[Path | None, typer.Argument(metavar="[JOB.toml]", help="A file that says the same.")] = None,
    source: Annotated[
        str | None, typer.Option(help="parquet:DIR, csv:, json:, orc:, kafka:HOST:9092/TOPIC, workload:NAME, rate.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="The key's columns, separated by commas.")] = None,
    aggregate: Annotated[str | None, typer.Option(help='What to keep per key: "count, sum(amount) as total".')] = None,
    operator: Annotated[str | None, typer.Option(help="Another operator, by name or as module:Class.")] = None,
    with_: Annotated[
        Pairs, typer.Option("--with", metavar="NAME=VALUE", help="A parameter of the operator; repeat.")
    ] = None,
    sink: Annotated[
        str | None, typer.Option(help="parquet:DIR, csv:, json:, orc:, kafka:HOST:9092/TOPIC, console.")
    ] = None,
    planner: Annotated[
        str | None, typer.Option(help="Which planner; see unskew planners.", show_default="mixed")
    ] = None,
    channels: Annotated[
        str | None, typer.Option(help="How many channels, or auto.", show_default="the session's cores")
    ] = None,
    tolerance: Annotated[float | None, typer.Option(help="Overload allowed over the mean, max/mean - 1.")] = None,
    plan: Annotated[
        str | None,
        typer.Option(help="own: plan each batch by its own counts; ahead: by those before.", show_default="own"),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option(help='With --plan ahead, how often to plan: batches, or "30 seconds".', show_default="1"),
    ] = None,
    schema: Annotated[str | None, typer.Option(help='Columns of the source: "user string, amount double".')] = None,
    column: Annotated[Pairs, typer.Option(metavar="NAME=SQL", help="A new column; repeat.")] = None,
    where: Annotated[str | None, typer.Option(help="A condition in SQL that rows must meet.")] = None,
    watermark: Annotated[str | None, typer.Option(help='Column and delay: "time 10 minutes".')] = None,
    source_option: Annotated[Pairs, typer.Option(metavar="NAME=VALUE", help="An option of the source; repeat.")] = None,
    sink_option: Annotated[Pairs, typer.Option(metavar="NAME=VALUE", help="An option of the sink; repeat.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Where progress is kept.", show_default="in the sink's folder")
    ] = None,
    follow: Annotated[bool | None, typer.Option("--follow", help="Go on as rows arrive, until Ctrl-C.")] = None,
    every: Annotated[str | None, typer.Option(help='With --follow: from one batch to the next, "5 seconds".')] = None,
    batches: Annotated[int | None, typer.Option(help="End after so many batches.")] = None,
    master: Annotated[
        str | None, typer.Option(help="Spark's master.", show_default="all cores of this machine")
    ] = None,
    conf: Annotated[Pairs, typer.Option(metavar="NAME=VALUE", help="A setting of Spark's; repeat.")] = None,
    package: Annotated[Pairs, typer.Option(metavar="COORDINATES", help="A package for Spark to fetch; repeat.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, from a sample of the rows.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Run a balanced query without writing code, and watch its channels.

    Options on the command line win over the file. A job that is run again goes on where it ended: its progress is kept
    in a checkpoint. Each batch writes the rows of the keys that it touched.

    [bold]Examples[/]
    [cyan]unskew run --source parquet:clicks --key user --aggregate "count, sum(amount)" --sink parquet:out[/]
    [cyan]unskew run --source csv:clicks --key user --aggregate count --sink console --dry-run[/]
    [cyan]unskew run --source workload:zipf --key key --aggregate count --sink console --batches 5[/]
    [cyan]unskew run job.toml --follow --every "10 seconds" --channels auto[/]
    """
    from unskew.jobs.settings import job_from, read_job_file

    given = {
        "source": source, "sink": sink, "key": key, "aggregate": aggregate, "operator": operator,
        "parameters": _pairs(with_, "--with"), "source_options": _pairs(source_option, "--source-option"),
        "sink_options": _pairs(sink_option, "--sink-option"), "schema": schema, "columns": _pairs(column, "--column"),
        "where": where, "watermark": watermark, "checkpoint": checkpoint, "follow": follow, "every": every,
        "batches": batches, "channels": _number_or_word(channels), "planner": planner,
        "tolerance": tolerance, "plan": plan, "interval": _number_or_word(interval), "master": master,
        "conf": _pairs(conf, "--conf"), "packages": tuple(package) if package else None,
    }  # fmt: skip
    settings = {} if job_file is None else read_job_file(job_file)
    for name, value in given.items():
        if value is not None:
            settings[name] = {**settings.get(name, {}), **value} if isinstance(value, dict) else value
    job = job_from(settings, "the options" if job_file is None else str(job_file))
    if dry_run:
        from unskew.jobs.dry_run import preview
        from unskew.jobs.run import own_or_running_session

        with errors.status("looking at a sample ..."), own_or_running_session(job) as spark:
            shown = preview(spark, job)
        if json_output:
            print_json(shown.as_dict())
        else:
            _print_preview(shown)
        return
    from unskew.jobs.run import run as run_job
    from unskew.jobs.view import LiveView, NoView, PlainView, View

    live = console.is_terminal and job.to_place.kind != "console"
    view: View = NoView() if json_output else (LiveView if live else PlainView)(console, job)
    outcome = run_job(job, view)
    if json_output:
        print_json(outcome.as_dict())
    else:
        _print_outcome(outcome)
    if outcome.interrupted:
        raise typer.Exit(130)


def _pairs(pairs: Pairs, option: str) -> dict[str, Any] | None:
    if pairs is None:
        return None
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise ArgumentError("expected NAME=VALUE", where=option, got=pair)
        settings[name.strip()] = value.strip()
    return settings


def _number_or_word(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.strip().isdecimal() else text


def _print_outcome(outcome: Outcome) -> None:
    count = len(outcome.batches)
    ending = "Stopped" if outcome.interrupted else "Done"
    summary = f"{outcome.rows:,} rows in {count} {'batch' if count == 1 else 'batches'}, {outcome.seconds:.1f} s"
    console.print(f"{ending}: {summary}.", soft_wrap=True)
    if outcome.interrupted and outcome.checkpoint is not None:
        console.print("The same command goes on where this one ended.")


def _print_preview(shown: Preview) -> None:
    plan = Table.grid(padding=(0, 2))
    kept = shown.checkpoint if shown.checkpoint is not None else "nowhere: every run begins anew"
    rows = {
        "source": f"{shown.source}\n{shown.input_columns}",
        "key": shown.key,
        "operator": shown.operator,
        "sink": f"{shown.sink}\n{shown.output_columns}",
        "when": shown.trigger,
        "progress": kept,
        "channels": str(shown.channels),
        "planner": shown.planner,
    }
    for name, value in rows.items():
        plan.add_row(f"[bold]{name}[/]", escape(value))
    console.print(plan)
    if shown.skew is None:
        console.print("\nThere are no rows yet, so nothing can be said about the key's skew.")
    else:
        _print_skew(shown.skew)


def _print_skew(skew: Skew) -> None:
    console.print(f"\n[bold]hottest keys[/]  {skew.rows:,} rows sampled, {skew.distinct_keys:,} keys")
    names, shares = [key.key for key in skew.hot_keys], [key.share for key in skew.hot_keys]
    console.print(bars(names, shares, notes=[f"{share:.1%}" for share in shares], mean=1.0))
    what = "combined rows" if skew.combined else "rows"
    for title, loads in (("by hash", skew.loads_before), ("as unskew would place them", skew.loads_after)):
        console.print(f"\n[bold]{what} per channel {title}[/]  {sum(loads) / len(loads):,.0f} if balanced")
        console.print(bars([str(i) for i in range(len(loads))], loads, notes=[f"{load:,.0f}" for load in loads]))
    (_print_combined_gain if skew.combined else _print_gain)(skew)


def _print_gain(skew: Skew) -> None:
    report = skew.report
    before, after = 1 + report.imbalance_before, 1 + report.imbalance_after
    console.print(
        f"\nThe fullest channel has [bold]{before:.2f}[/] times the mean by hash, [bold]{after:.2f}[/] planned: "
        f"a batch bound by it would be [bold]{skew.speedup:.2f}[/] times as fast. "
        f"{report.moved_keys} keys get an entry of their own.",
        soft_wrap=True,
    )
    if skew.unsplittable:
        console.print(
            f"{', '.join(map(escape, skew.unsplittable[:5]))} alone exceed what a channel should have: "
            "one owner per key cannot do better.",
            soft_wrap=True,
        )


def _print_combined_gain(skew: Skew) -> None:
    gain = f"A batch would be about [bold]{skew.speedup:.2f}[/] times as fast."
    if skew.speedup < WORTH_SPEEDUP:
        gain = (
            "Balance would bring [bold]little or nothing[/] here. "
            "It pays where every row reaches its channel, as in functions per key, joins and sessions."
        )
    console.print(
        f"\nThis operator combines rows where they are read: of {skew.rows:,} rows about {sum(skew.loads_before):,.0f} "
        f"reach the channels, and a hot key is one row of each partition. {gain}",
        soft_wrap=True,
    )
