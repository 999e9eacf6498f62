"""``unskew simulate``: clusters that we do not have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from unskew.cli.options import require_folder, require_positive
from unskew.cli.output import Json, console, errors, print_json
from unskew.errors import FAR, ArgumentError, require_number

if TYPE_CHECKING:
    from unskew.planners.base import Planner
    from unskew_lab.simulation.record import Result
    from unskew_lab.simulation.study import Point

KINDS = ("flux", "scale", "kafka")


def simulate(
    what: Annotated[
        str, typer.Argument(help="flux: a cluster under load. scale: planners at large sizes. kafka: queues.")
    ],
    figure: Annotated[
        str | None, typer.Option(help="Simulate a figure of the Flux paper: 3, 6 to 10, memory, mixed.")
    ] = None,
    nodes: Annotated[int, typer.Option(help="Machines.")] = 32,
    partitions: Annotated[
        int | None, typer.Option(help="Partitions per machine (64), or of the Kafka topic (12).")
    ] = None,
    buffer: Annotated[int, typer.Option(help="Tuples of buffer per producer.")] = 2048,
    routing: Annotated[str, typer.Option(help="flux, exchange or river.")] = "flux",
    data: Annotated[str, typer.Option(help="uniform, self-similar or two-class.")] = "uniform",
    loaded: Annotated[int, typer.Option(help="Machines under external load from 5 s on.")] = 1,
    squeezed: Annotated[int, typer.Option(help="Machines with half the memory from 5 s on; 6 MB partitions then.")] = 0,
    planner: Annotated[str | None, typer.Option(help="Who moves partitions or keys; see unskew planners.")] = None,
    collection: Annotated[float, typer.Option(help="Shortest collection phase, in seconds.")] = 0.010,
    seconds: Annotated[float | None, typer.Option(help="Simulated time; 30, or 40 for kafka.")] = None,
    channels: Annotated[str, typer.Option(help="scale: numbers of channels, separated by commas.")] = "10,100,1000",
    keys: Annotated[
        str | None, typer.Option(help="scale: numbers of keys (10000,1000000,100000000); kafka: one (1000000).")
    ] = None,
    planners: Annotated[str, typer.Option(help="scale: planners, separated by commas. All by default.")] = "",
    service_us: Annotated[float, typer.Option(help="kafka: microseconds a consumer takes for a message.")] = 50.0,
    utilisation: Annotated[float, typer.Option(help="kafka: busy share of the consumers if all were equal.")] = 0.85,
    hot: Annotated[str, typer.Option(help="kafka: hot keys: share:S, abs:MESSAGES or cover:S.")] = "share:0.001",
    interval: Annotated[float, typer.Option(help="kafka: seconds between two decisions.")] = 10.0,
    shift: Annotated[int, typer.Option(help="kafka: places by which all keys shift every minute.")] = 0,
    burst: Annotated[float, typer.Option(help="kafka: messages that arrive at one instant, on average.")] = 1.0,
    handover_ms: Annotated[float, typer.Option(help="kafka: time to hand a key over to its new consumer.")] = 0.0,
    gateways: Annotated[int, typer.Option(help="kafka: gateways that share the keys.")] = 1,
    contenders: Annotated[str, typer.Option(help="kafka: whom to compare.")] = "smalops,kafka,round-robin",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for plots.  [default: artifacts/simulate-WHAT]")] = None,
    json_output: Json = False,
) -> None:
    """Simulate a cluster of machines, planners at sizes beyond one machine, or the queues of a Kafka topic.

    [bold]Examples[/]
    [cyan]unskew simulate flux --figure 6[/]                                     one loaded machine, static and balanced
    [cyan]unskew simulate flux --nodes 64 --loaded 8 --planner flux-load[/]      parameters of your own
    [cyan]unskew simulate flux --squeezed 2 --planner flux-hybrid --json[/]      for programs
    [cyan]unskew simulate scale --channels 10,1000 --keys 1000000[/]             how planners grow
    [cyan]unskew simulate kafka --partitions 16 --service-us 20[/]               how long messages wait, and for whom
    """
    if what not in KINDS:
        raise ArgumentError("there is nothing of that name to simulate", got=what, hint=f"one of {', '.join(KINDS)}")
    folder = out or Path("artifacts") / f"simulate-{what}"
    require_folder("--out", folder)
    partitions = (12 if what == "kafka" else 64) if partitions is None else partitions
    seconds = (40.0 if what == "kafka" else 30.0) if seconds is None else seconds
    for option, least, count in (
        ("--nodes", 1, nodes),
        ("--partitions", 1, partitions),
        ("--buffer", 0, buffer),
        ("--loaded", 0, loaded),
        ("--squeezed", 0, squeezed),
        ("--shift", 0, shift),
        ("--gateways", 1, gateways),
        ("--seed", 0, seed),
    ):
        require_number(option, count, least)
    require_positive("--collection", collection)
    require_positive("--seconds", seconds)
    require_positive("--service-us", service_us)
    require_positive("--utilisation", utilisation, most=1)
    require_positive("--interval", interval)
    require_number("--burst", burst, 1, FAR, whole=False)
    require_number("--handover-ms", handover_ms, 0, FAR, whole=False)
    if what == "kafka":
        from unskew.planners import planner as named
        from unskew_lab.cli.simulate_kafka import hot_keys, simulate_kafka
        from unskew_lab.simulation.queueing import Gateway, Topic

        hot_by, threshold = hot_keys(hot)
        who = named(planner) if planner not in (None, "smalops") else named("smalops", hot_by="listed")
        simulate_kafka(
            Topic(
                partitions=partitions,
                message_seconds=1e-6 * service_us,
                utilisation=utilisation,
                seconds=seconds,
                key_count=_numbers(keys or "1000000")[0],
                shift=shift,
                burst=burst,
                seed=seed,
            ),
            Gateway(
                planner=who,
                hot_by=hot_by,
                hot_threshold=threshold,
                interval_seconds=interval,
                handover_seconds=1e-3 * handover_ms,
                count=gateways,
            ),
            _named("--contenders", contenders),
            _progress(),
            folder,
            json_output,
        )
    elif what == "scale":
        sizes = _numbers(keys or "10000,1000000,100000000")
        _scale(_numbers(channels), sizes, [p for p in planners.split(",") if p], seed, folder, json_output)
    elif figure is not None:
        _figure(figure, seed, folder, json_output)
    else:
        from unskew.planners import planner as named
        from unskew_lab.simulation.setup import MemoryChange, Setup, Slowdown

        if loaded + squeezed > nodes:
            many = f"{loaded + squeezed} machines are loaded or squeezed, but there are only {nodes}"
            raise ArgumentError(many, where="--loaded and --squeezed", hint="give more --nodes")
        mover: Planner | None = named(planner) if planner else None
        setup = Setup(
            nodes=nodes,
            partitions_per_node=partitions,
            pool_tuples=buffer,
            routing=routing,  # type: ignore[arg-type]
            data=data,  # type: ignore[arg-type]
            seconds=seconds,
            planner=mover,
            shortest_collection_seconds=collection,
            slowdowns=tuple(Slowdown(site, 5.0) for site in range(loaded)),
            memory_changes=tuple(
                MemoryChange(site, 5.0, 0.65 * partitions * 6e6) for site in range(loaded, loaded + squeezed)
            ),
            state_tuples=75_000 if squeezed else 10_000,
            memory_bytes=1.3 * partitions * 6e6,
            seed=seed,
        )
        _own(setup, folder, json_output)


def _own(setup: Any, folder: Path, json_output: bool) -> None:
    from unskew_lab.simulation import simulate as run_setup
    from unskew_lab.simulation.figures import draw_run

    with _progress() as progress:
        task = progress.add_task("simulated seconds", total=setup.seconds)
        run = run_setup(setup, lambda now: progress.update(task, completed=now))
    path = folder / "run.png"
    draw_run(run, path)
    table = Table.grid(padding=(0, 2))
    for name, value in run.totals().items():
        table.add_row(name.replace("_", " "), f"{value:,.6g}")
    _print(_plain_run(run), table, path, json_output)


def _plain_run(run: Result) -> dict[str, Any]:
    return {
        "totals": run.totals(),
        "throughput": run.throughput,
        "latency_seconds": run.latency_seconds,
        "on_disk": run.on_disk,
        "rounds": [
            {"seconds": r.seconds, "collection": r.collection_seconds, "took": r.move_seconds, "moves": r.moves}
            for r in run.rounds
        ],
    }


def _figure(figure: str, seed: int, folder: Path, json_output: bool) -> None:
    import dataclasses

    from unskew_lab.experiments.flux.figures import draw
    from unskew_lab.experiments.flux.grid import FIGURES, trials_of
    from unskew_lab.experiments.flux.results import Results, run_trial

    if figure not in FIGURES:
        raise ArgumentError("the paper has no such figure to simulate", got=figure, hint=f"one of {', '.join(FIGURES)}")
    trials = [dataclasses.replace(t, seed=seed) for t in trials_of(figure)]
    rows = []
    with _progress() as progress:
        for trial in progress.track(trials, description=f"figure {figure}"):
            rows.append((trial, run_trial(trial)))
    path = folder / f"figure-{figure}.png"
    draw(figure, Results(rows), path)
    shown: list[dict[str, Any]] = [
        {
            "series": trial.series,
            "x": trial.x,
            "loaded": trial.loaded,
            "data": trial.data,
            "throughput": measures["throughput"],
            "latency_seconds": measures["latency"],
            "moves": measures["moves"][0],
        }
        for trial, measures in rows
    ]
    table = Table(title=f"figure {figure}")
    for heading in ("series", "x", "loaded", "data"):
        table.add_column(heading)
    for heading in ("tuples/s", "at the end", "latency, us", "moves"):
        table.add_column(heading, justify="right")
    for row in shown:
        rate, wait = row["throughput"], row["latency_seconds"]
        means = (sum(rate) / len(rate), sum(rate[-5:]) / 5, 1e6 * sum(wait[-5:]) / 5, row["moves"])
        named = (row["series"], f"{row['x']:g}", str(row["loaded"]), row["data"])
        table.add_row(*named, *(f"{value:,.4g}" for value in means))
    _print({"figure": figure, "runs": shown}, table, path, json_output)


def _scale(channels: list[int], keys: list[int], names: list[str], seed: int, folder: Path, json_output: bool) -> None:
    from unskew.planners import planner as planner_of
    from unskew_lab.simulation.figures import draw_scale
    from unskew_lab.simulation.study import Study, planners_of_the_study

    for name in names:
        planner_of(name)  # raises if there is none
    studied = names or planners_of_the_study()
    points: list[Point] = []
    studies = [Study(channels=c, keys=k, seed=seed) for k in keys for c in channels if k >= c]
    if not studies:
        hint = "give more --keys or fewer --channels"
        raise ArgumentError("there are fewer keys than channels", where="--keys", got=max(keys), hint=hint)
    with _progress() as progress:
        for study in progress.track(studies, description="sizes"):
            points += study.run(studied)
    path = folder / "scale.png"
    draw_scale(points, path)
    table = Table()
    table.add_column("planner")
    for heading in ("channels", "keys", "imbalance", "next interval", "moved share", "table", "plan, ms"):
        table.add_column(heading, justify="right")
    for p in points:
        table.add_row(
            p.planner,
            f"{p.channels:,}",
            f"{p.keys:,}",
            *(f"{value:.3f}" for value in (p.imbalance, p.imbalance_next, p.migrated_share)),
            f"{p.table_size:,.0f}",
            f"{1000 * p.planning_seconds:,.1f}",
        )
    _print({"points": points}, table, path, json_output)


def _print(result: dict[str, Any], table: Table, path: Path, json_output: bool) -> None:
    if json_output:
        print_json({**result, "plot": path})
    else:
        console.print(table)
        console.print(f"plot in {path}")


def _progress() -> Progress:
    """Return a progress bar on standard error, so that standard output stays for results."""
    return Progress(
        TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=errors, transient=True
    )


def _named(option: str, text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if not names:
        raise ArgumentError("there is nobody to compare", where=option, got=text, hint="such as smalops,kafka")
    return names


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(float(part)) for part in text.split(",")]
    except (ValueError, OverflowError):
        raise ArgumentError("sizes must be whole numbers, separated by commas", got=text, hint="10,100,1000") from None
    if not numbers or min(numbers) < 1:
        raise ArgumentError("sizes must be above 0", got=text)
    return numbers
