"""``unskew kafka``: a broker to try things out with, and the gateway."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from unskew.cli.output import Json, console, errors, print_json
from unskew.errors import ArgumentError, SessionError

if TYPE_CHECKING:
    from unskew.kafka.broker import Broker
    from unskew.kafka.spark_gateway import Gateway

Pairs = list[str] | None
Folder = Annotated[
    Path | None, typer.Option(help="Where the broker keeps its data.", show_default="the user's state folder")
]
FOLLOW_SECONDS = 0.5

kafka = typer.Typer(
    name="kafka",
    no_args_is_help=True,
    help="Run a Kafka broker on this machine, and the gateway that spreads hot keys over a topic's partitions.",
    rich_markup_mode="rich",
)


@kafka.command()
def up(
    folder: Folder = None,
    port: Annotated[int | None, typer.Option(help="Where to listen.", show_default="any free port")] = None,
    json_output: Json = False,
) -> None:
    """Start a broker on this machine, for trying out; the first start fetches its jars.

    [bold]Examples[/]
    [cyan]unskew kafka up[/]                start it, and say where it listens
    [cyan]unskew kafka up --port 9092[/]    at a port of your choice
    """
    from unskew.kafka.broker import default_folder, start

    with errors.status("starting a broker ..."):
        broker = start(folder or default_folder(), port=port)
    _say(broker, json_output)


@kafka.command()
def status(folder: Folder = None, json_output: Json = False) -> None:
    """Say where the broker listens, if it runs.

    [bold]Examples[/]
    [cyan]unskew kafka status[/]           for people
    [cyan]unskew kafka status --json[/]    for programs
    """
    from unskew.kafka.broker import default_folder, find

    _say(find(folder or default_folder()), json_output)


@kafka.command()
def down(
    folder: Folder = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete its data as well.")] = False,
    json_output: Json = False,
) -> None:
    """Stop the broker; its topics are there again at the next start.

    [bold]Examples[/]
    [cyan]unskew kafka down[/]             stop it
    [cyan]unskew kafka down --delete[/]    and forget everything
    """
    from unskew.kafka import broker as brokers

    place = folder or brokers.default_folder()
    broker = brokers.find(place)
    if broker is not None:
        with errors.status("stopping the broker ..."):
            broker.stop()
    if delete:
        brokers.delete(place)
    _say(None, json_output)


@kafka.command()
def gateway(
    source: Annotated[
        str, typer.Option(help="parquet:DIR, csv:, json:, orc:, kafka:HOST:9092/TOPIC, workload:NAME, rate.")
    ],
    key: Annotated[str, typer.Option(help="Column with the key.")],
    topic: Annotated[str, typer.Option(help="The topic to write to.")],
    servers: Annotated[str | None, typer.Option(help="The broker.", show_default="that of unskew kafka up")] = None,
    value: Annotated[str | None, typer.Option(help="Column with the value.", show_default="all, as JSON")] = None,
    planner: Annotated[str, typer.Option(help="Who moves keys; see unskew planners.")] = "smalops",
    interval: Annotated[float, typer.Option(help="Seconds between two plans.")] = 10.0,
    partitions: Annotated[int | None, typer.Option(help="Create the topic with so many if it is not there.")] = None,
    stamp: Annotated[
        str | None,
        typer.Option(
            help="Rows that are numbered: moved (of keys with routes), all, none.",
            show_default="moved; none above a shuffle",
        ),
    ] = None,
    keyed_source: Annotated[
        bool, typer.Option("--keyed-source", help="All rows of a key come from one partition of the source.")
    ] = False,
    order_by: Annotated[
        list[str] | None, typer.Option(help="A column by which a key's rows are ordered; repeat.")
    ] = None,
    share: Annotated[str, typer.Option(metavar="I/N", help="The I-th of N gateways that share the keys.")] = "0/1",
    consumers: Annotated[
        str | None, typer.Option(help="Group whose lag and costs the planner is told, for --rule backlog.")
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="When moving pays although keys have state: none, printed, backlog.")
    ] = None,
    wait_for: Annotated[
        list[str] | None, typer.Option(help="A group that must have read everything before we begin; repeat.")
    ] = None,
    control_topic: Annotated[
        str | None, typer.Option(help="Where consumers talk to each other.", show_default="TOPIC.control")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Where routes and progress are kept.", show_default="nowhere, on an empty topic")
    ] = None,
    batches: Annotated[int | None, typer.Option(help="End after so many batches.")] = None,
    every: Annotated[str | None, typer.Option(help='From one batch to the next, "1 second".')] = None,
    once: Annotated[bool, typer.Option("--once", help="End with what is there now.")] = False,
    schema: Annotated[str | None, typer.Option(help='Columns of the source: "user string, amount double".')] = None,
    column: Annotated[Pairs, typer.Option(metavar="NAME=SQL", help="A new column; repeat.")] = None,
    where: Annotated[str | None, typer.Option(help="A condition in SQL that rows must meet.")] = None,
    source_option: Annotated[Pairs, typer.Option(metavar="NAME=VALUE", help="An option of the source; repeat.")] = None,
    option: Annotated[
        Pairs, typer.Option(metavar="NAME=VALUE", help="Of the Kafka client: kafka.security.protocol=SSL; repeat.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Spark's master.", show_default="all cores of this machine")
    ] = None,
    json_output: Json = False,
) -> None:
    """Write a stream to a topic, and move hot keys off overloaded partitions while it runs.

    Where a key moves, markers in both partitions let unskew.kafka.OrderedConsumer put its messages back in order.

    [bold]Examples[/]
    [cyan]unskew kafka gateway --source workload:smalops --key key --topic clicks --partitions 8 --batches 20[/]
    [cyan]unskew kafka gateway --source kafka:HOST:9092/in --key key --topic out --keyed-source --checkpoint DIR[/]
    [cyan]unskew kafka gateway ... --option kafka.security.protocol=SASL_SSL --option kafka.sasl.mechanism=PLAIN[/]
    """
    import tempfile

    from unskew.kafka.jars import connector_jars
    from unskew.kafka.spark_gateway import Gateway
    from unskew.planners import planner as make_planner
    from unskew.spark import session

    options = {"kafka.bootstrap.servers": servers or _own_broker(), **_pairs(option, "--option")}
    jars = ",".join(str(jar) for jar in connector_jars())
    spark = session(master, {"spark.jars": jars})
    events = _events(
        spark,
        source=source,
        key=key,
        sink=f"kafka:{options['kafka.bootstrap.servers']}/{topic}",
        schema=schema,
        columns=_pairs(column, "--column"),
        where=where,
        source_options=_pairs(source_option, "--source-option"),
    )
    chosen = make_planner(planner, **({"rule": rule} if rule else {}))
    parameters: dict[str, Any] = {"value": value, "planner": chosen, "interval_seconds": interval, "stamp": stamp}
    running = Gateway(
        events,
        key=key,
        topic=topic,
        options=options,
        partitions=partitions,
        keyed_source=keyed_source,
        order_by=tuple(order_by or ()),
        share=_share(share),
        wait_for=tuple(wait_for or ()),
        consumers=consumers,
        control_topic=control_topic,
        **parameters,
    )
    if checkpoint is None and not wait_for:
        _refuse_a_topic_with_messages(spark, running)
    trigger = {"availableNow": True} if once else {"processingTime": every or "0 seconds"}
    with tempfile.TemporaryDirectory(prefix="unskew-gateway-", ignore_cleanup_errors=True) as nowhere:
        _follow(running, running.start(checkpoint or nowhere, trigger=trigger), batches, json_output)


def _refuse_a_topic_with_messages(spark: Any, running: Gateway) -> None:
    from unskew.kafka.spark_kafka import Admin

    if Admin(spark, running.settings).messages(running.topic):
        raise ArgumentError(
            "the topic has messages; keys that another run has moved would go home unmarked, ahead of their past",
            where=running.topic,
            hint="give the --checkpoint of that run, or --wait-for the groups that read the topic",
        )


def _events(spark: Any, **given: Any) -> Any:
    from unskew.jobs.job import Job
    from unskew.jobs.sources import stream_of

    return stream_of(spark, Job(aggregate="count", follow=True, **given))


def _follow(running: Gateway, query: Any, batches: int | None, json_output: bool) -> None:
    """Show what happens until the query ends, enough batches are written, or somebody presses Ctrl-C."""
    import time

    last = -1
    try:
        with errors.status("writing ...") as shown:
            while query.isActive:
                decision = running.decision
                if decision is not None and decision.batch_id != last:
                    last = decision.batch_id
                    shown.update(
                        f"batch {last}: {running.rows:,} rows written, {len(decision.routes)} keys away from home, "
                        f"epoch {decision.epoch}"
                    )
                if batches is not None and running.batches >= batches:
                    break
                time.sleep(FOLLOW_SECONDS)
    except KeyboardInterrupt:
        pass
    if query.exception() is not None:
        raise SessionError("the gateway failed", where=running.topic, got=_last_cause(query.exception()))
    query.stop()
    decision, report = running.decision, running.report
    figures = {
        "topic": running.topic,
        "partitions": running.partitions,
        "batches": running.batches,
        "rows": running.rows,
        "moves": running.moves,
        "epoch": decision.epoch if decision else 0,
        "keys_away_from_home": len(decision.routes) if decision else 0,
        "imbalance_before": report.imbalance_before if report else None,
        "imbalance_after": report.imbalance_after if report else None,
    }
    if json_output:
        print_json(figures)
        return
    for name, figure in figures.items():
        console.print(f"[bold]{name.replace('_', ' ')}[/]  {escape(str(figure))}")


def _say(broker: Broker | None, json_output: bool) -> None:
    running = broker is not None and broker.running
    if json_output:
        bootstrap = broker.bootstrap if broker is not None and running else None
        print_json({"running": running, "bootstrap": bootstrap, "pid": broker.pid if broker and running else None})
    elif broker is not None and running:
        console.print(f"A broker listens at [bold]{broker.bootstrap}[/] (process {broker.pid}, {broker.folder}).")
    else:
        console.print("No broker of ours runs.")


def _own_broker() -> str:
    from unskew.kafka.broker import default_folder, find

    broker = find(default_folder())
    if broker is None or not broker.running:
        raise ArgumentError("which broker", where="--servers", hint="name one, or start one with unskew kafka up")
    return broker.bootstrap


def _last_cause(error: Exception) -> str:
    """Return the innermost cause that a failed query names, in one line."""
    causes = [line for line in str(error).splitlines() if "Caused by: " in line]
    return (causes[-1].partition("Caused by: ")[2] if causes else str(error).splitlines()[0])[:300]


def _share(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit()):
        raise ArgumentError("a share is I/N", where="--share", got=text, hint="0/2 and 1/2 for two gateways")
    return int(index), int(count)


def _pairs(given: Pairs, where: str) -> dict[str, str]:
    found = [each.partition("=") for each in given or []]
    for name, equals, _ in found:
        if not equals:
            raise ArgumentError("this should be NAME=VALUE", where=where, got=name)
    return {name: value for name, _, value in found}
