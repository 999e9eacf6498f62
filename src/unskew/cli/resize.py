"""``unskew resize``: a checkpoint with room for more channels."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from unskew.cli.output import Json, console, errors, print_json


def resize(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint of a balanced query that does not run.")],
    max_channels: Annotated[int, typer.Option(help="How many channels there may be from now on.")],
    to: Annotated[str, typer.Option(help="Where to put the new checkpoint; must not exist.")],
    master: Annotated[
        str | None, typer.Option(help="Spark's master.", show_default="all cores of this machine")
    ] = None,
    conf: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark's; repeat.")] = None,
    json_output: Json = False,
) -> None:
    """Make a new checkpoint with another max_channels from that of a query that does not run.

    The old one is only read. Start the query with the new checkpoint and the new max_channels: it goes on with the next
    batch, with all its state, where it was in its sources.

    [bold]Examples[/]
    [cyan]unskew resize checkpoints/clicks --max-channels 16 --to checkpoints/clicks-16[/]
    [cyan]unskew resize s3a://bucket/a --max-channels 32 --to s3a://bucket/b --master spark://host:7077[/]
    """
    from unskew.errors import ArgumentError
    from unskew.spark.local_session import session
    from unskew.spark.resized import resize_checkpoint
    from unskew.spark.trial import is_running

    if max_channels < 1:
        raise ArgumentError("a stream needs at least one channel", where="--max-channels", got=max_channels)
    settings = {}
    for pair in conf or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ArgumentError("expected NAME=VALUE", where="--conf", got=pair)
        settings[name] = value
    with errors.status("carrying state over ..."):
        ours = not is_running()
        spark = session(master, settings)
        try:
            done = resize_checkpoint(spark, checkpoint, max_channels, to)
        finally:
            if ours:
                spark.stop()
    if json_output:
        print_json(asdict(done))
    else:
        console.print(
            f"{done.checkpoint}: up to {done.max_channels} channels (before {done.max_channels_before}, "
            f"{done.channels} in use), goes on after batch {done.batch_id} with {done.state_bytes:,} bytes of state.",
            soft_wrap=True,
        )
