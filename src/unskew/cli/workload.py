"""``unskew workload``: list the workloads, describe the skew of one, look at its rows or write them to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape
from rich.table import Table
from typer import Argument, Option

from unskew.bars import bars, counted
from unskew.cli.options import Words, pairs
from unskew.cli.output import Json, console, print_json
from unskew.errors import ArgumentError

if TYPE_CHECKING:
    from unskew.workloads import Description, Workload

ROWS = 1_000_000
SAMPLE = 10
CHANNELS_HELP = "Channels to try with --describe. Repeat for more."


def workload(
    name: Annotated[str | None, Argument(help="Which workload. See --list.")] = None,
    listing: Annotated[bool, Option("--list", help="List the workloads and their options.")] = False,
    describe: Annotated[bool, Option("--describe", help="Show how skewed it is.")] = False,
    settings: Annotated[Words, Option("--set", metavar="NAME=VALUE", help="An option. Repeat for more.")] = None,
    rows: Annotated[int | None, Option(help="Rows per interval.")] = None,
    interval: Annotated[int, Option(help="Which interval, from 0.")] = 0,
    intervals: Annotated[int, Option(help="How many intervals to write with --out.")] = 1,
    channels: Annotated[list[int] | None, Option(help=CHANNELS_HELP, show_default="4 8 16 32 64")] = None,
    out: Annotated[Path | None, Option(help="Write rows to this .parquet or .csv file.")] = None,
    json_output: Json = False,
) -> None:
    """Generate skewed streams, and see what hashing would make of them.

    [bold]Examples[/]
    [cyan]unskew workload --list[/]                              what there is
    [cyan]unskew workload zipf --describe --set exponent=1.2[/]  how skewed it is
    [cyan]unskew workload words --describe --channels 12[/]      on 12 channels
    [cyan]unskew workload hot-key --set base=ct --rows 5[/]      look at some rows
    [cyan]unskew workload wp --rows 50000 --out wp.parquet[/]    write a file
    """
    from unskew.workloads import workload as named
    from unskew.workloads.describe import CHANNELS
    from unskew.workloads.describe import describe as description_of

    if listing:
        _print_list(json_output)
        return
    if name is None:
        raise ArgumentError("no workload is named", hint="name one, or see them with unskew workload --list")
    chosen = named(name, **pairs(settings, "--set"))
    if describe:
        number = ROWS if rows is None else rows
        _print_description(description_of(chosen, number, channels or CHANNELS, interval=interval), json_output)
    elif out is not None:
        written = _write(chosen, out, ROWS if rows is None else rows, range(interval, interval + intervals))
        if json_output:
            print_json({"file": out, "rows": written})
        else:
            console.print(f"{counted(written, 'row')} in {out}")
    else:
        _print_sample(chosen, interval, SAMPLE if rows is None else rows, json_output)


def _print_list(json_output: bool) -> None:
    from unskew.workloads import WORKLOADS
    from unskew.workloads.options import options_of

    if json_output:
        print_json(
            [{"name": name, "summary": kind.summary(), "options": options_of(kind)} for name, kind in WORKLOADS.items()]
        )
        return
    table = Table.grid(padding=(0, 2))
    for name, kind in WORKLOADS.items():
        options = " ".join(f"{option}={default}" for option, default in options_of(kind).items())
        table.add_row(f"[cyan]{name}[/]", f"{escape(kind.summary())}\n[dim]{escape(options)}[/]")
    console.print(table)


def _print_description(description: Description, json_output: bool) -> None:
    if json_output:
        print_json(description)
        return
    table = Table.grid(padding=(0, 2))
    table.add_row("rows", f"{description.rows:,}  (interval {description.interval})")
    table.add_row("distinct keys", f"{description.distinct_keys:,}")
    table.add_row("hottest key", f"{description.top_share:.2%} of the rows")
    table.add_row("half of the rows", f"belong to {counted(description.keys_for_half, 'key')}")
    console.print(f"[bold]{description.workload}[/]")
    console.print(table)

    console.print("\n[bold]hottest keys[/]")
    names = ["null" if hot.key is None else str(hot.key) for hot in description.top_keys]
    shares = [hot.share for hot in description.top_keys]
    console.print(bars(names, shares, notes=[f"{share:.2%}" for share in shares], mean=1.0))

    drawn = next((load for load in description.loads if load.channels == 8), description.loads[0])
    console.print(f"\n[bold]rows on {counted(drawn.channels, 'channel')} under hashing[/]")
    labels = [str(channel) for channel in range(drawn.channels)]
    console.print(bars(labels, drawn.rows, notes=[f"{rows:,}" for rows in drawn.rows]))

    console.print("\n[bold]how much shorter a batch would be, balanced[/]")
    gains = Table(box=None, pad_edge=False)
    for heading in ("channels", "fullest / mean", "no key split"):
        gains.add_column(heading, justify="right")
    for load in description.loads:
        gains.add_row(f"{load.channels}", f"{load.times_shorter:.2f} x", f"{load.times_shorter_whole_keys:.2f} x")
    console.print(gains)


def _print_sample(chosen: Workload, interval: int, rows: int, json_output: bool) -> None:
    sample: list[dict[str, Any]] = chosen.rows(interval, rows).to_pylist()
    for row in sample:
        row["event_time"] = row["event_time"].isoformat(timespec="microseconds")
    if json_output:
        print_json(sample)
        return
    table = Table()
    for column in chosen.schema.names:
        table.add_column(column, justify="right")
    for row in sample:
        table.add_row(*("null" if value is None else escape(str(value)) for value in row.values()))
    console.print(table)


def _write(chosen: Workload, out: Path, rows: int, intervals: range) -> int:
    import pyarrow.csv
    import pyarrow.parquet

    from unskew.workloads.span import Span

    writers = {".parquet": pyarrow.parquet.ParquetWriter, ".csv": pyarrow.csv.CSVWriter}
    if out.suffix not in writers:
        hint = f"end its name in {' or '.join(writers)}"
        raise ArgumentError("a file of this kind cannot be written", where="--out", got=str(out), hint=hint)
    out.parent.mkdir(parents=True, exist_ok=True)
    with writers[out.suffix](out, chosen.schema) as writer:
        for interval in intervals:
            for part in Span.partition(interval, rows).chunks(1_000_000):
                writer.write_batch(chosen.batch(part))
    return rows * len(intervals)
