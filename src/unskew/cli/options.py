"""Options that several commands share, and how NAME=VALUE is read."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from unskew.errors import ArgumentError

Words = list[str] | None

SOURCES = "parquet:DIR, csv:, json:, orc:, kafka:HOST:9092/TOPIC, workload:NAME, rate."

Schema = Annotated[str | None, Option(help='Columns of the source: "user string, amount double".')]
Column = Annotated[Words, Option(metavar="NAME=SQL", help="A new column. Repeat for more.")]
Where = Annotated[str | None, Option(help="A condition in SQL that rows must meet.")]
SourceOption = Annotated[Words, Option(metavar="NAME=VALUE", help="An option of the source. Repeat for more.")]
Master = Annotated[str | None, Option(help="Spark's master.", show_default="all cores of this machine")]
Tolerance = Annotated[float | None, Option(help="How far a channel may exceed the mean: 0.05 is 5 %.")]
Planner = Annotated[str, Option(help="Which planner. See unskew planners.")]


def pairs(given: Words, option: str) -> dict[str, str]:
    """Read NAME=VALUE from every use of an option."""
    found = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise ArgumentError("expected NAME=VALUE", where=option, got=each)
        found[name.strip()] = value.strip(" ")  # a tab may be meant
    return found
