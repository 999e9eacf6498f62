"""Options that several commands share, how NAME=VALUE is read, and what is refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from unskew.errors import FAR, ArgumentError

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


def require_positive(option: str, number: float, most: float = FAR) -> None:
    """Raise `ArgumentError` unless an option is a number above 0 and not above `most`.

    >>> require_positive("--share", 2, most=1)
    Traceback (most recent call last):
    unskew.errors.ArgumentError: must be a number above 0 and at most 1, got 2 (in --share).
    """
    if not 0 < number <= most:
        raise ArgumentError(f"must be a number above 0 and at most {most:,.0f}", where=option, got=number)


def require_file(option: str, path: Path, endings: tuple[str, ...] = ()) -> None:
    """Raise `ArgumentError` unless there can be a file of that name, with such an ending; its folder may be new."""
    if endings and path.suffix not in endings:
        hint = f"end its name in {' or '.join(endings)}"
        raise ArgumentError("a file of this kind cannot be written", where=option, got=str(path), hint=hint)
    if path.is_dir():
        raise ArgumentError("this is a folder, not a file", where=option, got=str(path), hint="name a file in it")
    require_folder(option, path.parent)


def require_folder(option: str, path: Path) -> None:
    """Raise `ArgumentError` unless there is such a folder or it can be created, with those that it lies in."""
    for each in (path, *path.parents):
        if each.exists() and not each.is_dir():
            raise ArgumentError("this is a file, not a folder", where=option, got=str(each), hint="name a folder")
