"""``unskew kafka``: a broker to try things out with, and the gateway."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from rich.markup import escape
from typer import Option

from unskew.bars import counted
from unskew.cli.options import SOURCES, Column, Master, Planner, Schema, SourceOption, Where, Words, pairs
from unskew.cli.output import Json, console, errors, print_json, print_table
from unskew.errors import FAR, ArgumentError, SessionError, require_number

if TYPE_CHECKING:
    from unskew.kafka.broker import Broker
    from unskew.kafka.spark_gateway import Gateway

Folder = Annotated[Path | None, Option(help="Where the broker keeps its data.", show_default="the user's state folder")]
FOLLOW_SECONDS = 0.5
STAMP = "Rows to number: moved (of keys with routes), all, none."
NOWHERE = "nowhere, on an empty topic"

kafka = typer.Typer(
    name="kafka",
    no_args_is_help=True,
    help="Run a Kafka broker on this machine, and the gateway that spreads hot keys over a topic's partitions.",
    rich_markup_mode="rich",
)


@kafka.command()
def up(
    folder: Folder = None,
    port: Annotated[int | None, Option(help="Where to listen.", show_default="any free port")] = None,
    json_output: Json = False,
) -> None:
    """Start a broker on this machine, to try things out. The first start fetches its jars.

    [bold]Examples[/]
    [cyan]unskew kafka up[/]                start it, and say where it listens
    [cyan]unskew kafka up --port 9092[/]    at a port of your choice
    """
    from unskew.kafka.broker import default_folder, start

    if port is not None:
        require_number("--port", port, 1, 65535)
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
    delete: Annotated[bool, Option("--delete", help="Delete its data as well.")] = False,
    json_output: Json = False,
) -> None:
    """Stop the broker. Its topics are there again at the next start.

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
    source: Annotated[str, Option(help=SOURCES)],
    key: Annotated[str, Option(help="Column with the key.")],
    topic: Annotated[str, Option(help="The topic to write to.")],
    servers: Annotated[str | None, Option(help="The broker.", show_default="that of unskew kafka up")] = None,
    value: Annotated[
        str | None, Option(help="Column with the value.", show_default="value, or else all as JSON")
    ] = None,
    planner: Planner = "smalops",
    interval: Annotated[float, Option(help="Seconds between two plans.")] = 10.0,
    partitions: Annotated[int | None, Option(help="Partitions of a topic that is created.")] = None,
    stamp: Annotated[str | None, Option(help=STAMP, show_default="moved; none above a shuffle")] = None,
    keyed_source: Annotated[bool, Option("--keyed-source", help="Each key is in one partition of the source.")] = False,
    order_by: Annotated[Words, Option(help="A column that orders a key's rows. Repeat for more.")] = None,
    share: Annotated[str, Option(metavar="I/N", help="The I-th of N gateways that share the keys.")] = "0/1",
    consumers: Annotated[str | None, Option(help="With --rule backlog: the group whose lag and costs count.")] = None,
    rule: Annotated[str | None, Option(help="When a key with state may move: none, printed, backlog.")] = None,
    wait_for: Annotated[Words, Option(help="Wait until this group has read all. Repeat for more.")] = None,
    control_topic: Annotated[str | None, Option(help="Where consumers talk.", show_default="TOPIC.control")] = None,
    checkpoint: Annotated[str | None, Option(help="Where progress is kept.", show_default=NOWHERE)] = None,
    batches: Annotated[int | None, Option(help="End after this many batches.")] = None,
    every: Annotated[str | None, Option(help='Time between two batches, "1 second".')] = None,
    once: Annotated[bool, Option("--once", help="Write what is there now, and end.")] = False,
    schema: Schema = None,
    column: Column = None,
    where: Where = None,
    source_option: SourceOption = None,
    option: Annotated[Words, Option(metavar="NAME=VALUE", help="An option of Kafka's client. Repeat for more.")] = None,
    master: Master = None,
    json_output: Json = False,
) -> None:
    r"""Write a stream to a topic, and move hot keys off overloaded partitions while it runs.

    Where a key moves, the gateway puts markers into both partitions.
    With them unskew.kafka.OrderedConsumer puts its messages back in order.

    [bold]Examples[/]
    [cyan]unskew kafka gateway --source workload:smalops --key key \
        --topic clicks --partitions 8 --batches 20[/]
    [cyan]unskew kafka gateway --source kafka:HOST:9092/in --key key \
        --topic out --keyed-source --checkpoint DIR[/]
    [cyan]unskew kafka gateway ... --option kafka.security.protocol=SASL_SSL \
        --option kafka.sasl.mechanism=PLAIN[/]
    """
    import tempfile

    from unskew.jobs import Job
    from unskew.jobs.sources import require_source, stream_of
    from unskew.kafka.jars import connector_jars
    from unskew.kafka.spark_gateway import Gateway
    from unskew.planners import planner as make_planner
    from unskew.spark import session

    _check(interval, partitions, batches, stamp)
    if keyed_source and order_by:
        raise ArgumentError("--keyed-source and --order-by exclude each other", hint="leave one of them out")
    rules: dict[str, Any] = {"rule": rule} if rule else {}
    chosen, share_of = make_planner(planner, **rules), _share(share)
    options = {"kafka.bootstrap.servers": servers or _own_broker(), **pairs(option, "--option")}
    job = Job(
        source=source,
        key=key,
        sink=f"kafka:{options['kafka.bootstrap.servers']}/{topic}",
        aggregate="count",
        follow=True,
        schema=schema,
        columns=pairs(column, "--column"),
        where=where,
        source_options=pairs(source_option, "--source-option"),
    )
    require_source(job)
    spark = session(master, {"spark.jars": ",".join(map(str, connector_jars()))})
    numbered: Any = stamp
    running = Gateway(
        stream_of(spark, job),
        key=key,
        topic=topic,
        options=options,
        value=value,
        planner=chosen,
        interval_seconds=interval,
        stamp=numbered,
        partitions=partitions,
        keyed_source=keyed_source,
        order_by=tuple(order_by or ()),
        share=share_of,
        wait_for=tuple(wait_for or ()),
        consumers=consumers,
        control_topic=control_topic,
    )
    if checkpoint is None and not wait_for:
        _refuse_a_topic_with_messages(spark, running)
    trigger = {"availableNow": True} if once else {"processingTime": every or "0 seconds"}
    with tempfile.TemporaryDirectory(prefix="unskew-gateway-", ignore_cleanup_errors=True) as nowhere:
        _follow(running, running.start(checkpoint or nowhere, trigger=trigger), batches, json_output)


def _check(interval: float, partitions: int | None, batches: int | None, stamp: str | None) -> None:
    from unskew.kafka.spark_rows import Stamp

    require_number("--interval", interval, 0, FAR, whole=False)
    for option, number in (("--partitions", partitions), ("--batches", batches)):
        if number is not None:
            require_number(option, number, 1, 2**31 - 1)
    if stamp is not None and stamp not in get_args(Stamp):
        hint = f"one of {', '.join(get_args(Stamp))}"
        raise ArgumentError("there is no such way to number rows", where="--stamp", got=stamp, hint=hint)


def _refuse_a_topic_with_messages(spark: Any, running: Gateway) -> None:
    from unskew.kafka.spark_kafka import Admin

    if Admin(spark, running.settings).messages(running.topic):
        raise ArgumentError(
            "the topic has messages. Keys that an earlier run moved would lose their routes and their order",
            where=running.topic,
            hint="give the --checkpoint of that run, or name the groups that read the topic with --wait-for",
        )


def _follow(running: Gateway, query: Any, batches: int | None, json_output: bool) -> None:
    """Show what happens until the query ends, enough batches are written, or somebody presses Ctrl-C."""
    import time

    try:
        with errors.status("writing ...") as shown:
            while query.isActive and (batches is None or running.batches < batches):
                decision = running.decision
                if decision is not None:
                    written, away = counted(running.rows, "row"), counted(len(decision.routes), "key")
                    shown.update(
                        f"batch {decision.batch_id}: {written} written, {away} away from home, epoch {decision.epoch}"
                    )
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
        "overload_before": report.overload_before if report else None,
        "overload_after": report.overload_after if report else None,
    }
    if json_output:
        print_json(figures)
    else:
        print_table({name.replace("_", " "): escape(str(figure)) for name, figure in figures.items()})


def _say(broker: Broker | None, json_output: bool) -> None:
    running = broker if broker is not None and broker.running else None
    if json_output:
        bootstrap, pid = (running.bootstrap, running.pid) if running else (None, None)
        print_json({"running": running is not None, "bootstrap": bootstrap, "pid": pid})
    elif running is not None:
        console.print(f"A broker listens at [bold]{running.bootstrap}[/] (process {running.pid}, {running.folder}).")
    else:
        console.print("No broker of unskew is running.")


def _own_broker() -> str:
    from unskew.kafka.broker import default_folder, find

    broker = find(default_folder())
    if broker is None or not broker.running:
        raise ArgumentError("no broker is named", where="--servers", hint="name one, or start one: unskew kafka up")
    return broker.bootstrap


def _last_cause(error: Exception) -> str:
    """Return the innermost cause that a failed query names, in one line."""
    causes = [line for line in str(error).splitlines() if "Caused by: " in line]
    return (causes[-1].partition("Caused by: ")[2] if causes else str(error).splitlines()[0])[:300]


def _share(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise ArgumentError("expected I/N", where="--share", got=text, hint="0/2 and 1/2 for two gateways")
    return int(index), int(count)
