"""``unskew split``: what a splitting scheme would do with a stream of keys."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from unskew.bars import bars, counted
from unskew.cli.output import Json, console, print_classes, print_json, print_table
from unskew.errors import ArgumentError, FormatError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from unskew.splitters import Splitter
    from unskew.splitters.stream import SplitStream

CHANNELS_SHOWN = 32
NO_KEYS = "give a text file with one key a line, a Parquet file, or a folder of Parquet files"
ESTIMATE = "What sources know of the loads: global, local or probed."


def split(
    keys: Annotated[Path | None, Argument(help="Text file with one key a line, or a Parquet file.")] = None,
    scheme: Annotated[str, Option(help="How to route. See --list.")] = "pkg",
    workers: Annotated[int, Option(help="How many channels there are.")] = 10,
    sources: Annotated[int, Option(help="How many sources the stream comes through.")] = 5,
    choices: Annotated[int | None, Option(help="Candidate channels of a key, for greedy-d.")] = None,
    distinct: Annotated[bool, Option("--distinct", help="Make the candidates of a key all different.")] = False,
    estimate: Annotated[str | None, Option(help=ESTIMATE, show_default="local if the scheme allows")] = None,
    probe_tuples: Annotated[int, Option(help="Tuples between two probes, for --estimate probed.")] = 10_000,
    feed: Annotated[str, Option(help="How tuples reach the sources: round-robin or hash.")] = "round-robin",
    seed: Annotated[int, Option(help="Chooses one of many families of hash functions.")] = 0,
    column: Annotated[str | None, Option(help="Key column of the Parquet file.", show_default="key")] = None,
    listing: Annotated[bool, Option("--list", help="List the schemes.")] = False,
    json_output: Json = False,
) -> None:
    """Split a stream of keys over channels, and show the balance and what it costs in memory.

    A key on several channels has a partial state on each of them.
    Only operators that can merge states allow that.

    [bold]Examples[/]
    [cyan]unskew split --list[/]
    [cyan]unskew split words.txt --scheme pkg --workers 10 --sources 5[/]
    [cyan]unskew split clicks.parquet --column user --scheme d-choices[/]
    [cyan]unskew split words.txt --scheme greedy-d --choices 4 --json[/]
    """
    from unskew.splitters.stream import feed_sources, split_stream

    if listing:
        from unskew.splitters import SPLITTERS

        print_classes(SPLITTERS, json_output)
        return
    if keys is None:
        raise ArgumentError("no keys are named", hint="name a text or Parquet file; unskew workload --out writes one")
    chosen = _scheme(scheme, choices, distinct, seed)
    hashes = _read(keys, column)
    if not len(hashes):
        raise _without_keys(keys)
    known: Any = estimate or ("global" if chosen.shares_memory else "local")
    of = feed_sources(hashes, sources, feed)  # type: ignore[arg-type]
    options: dict[str, Any] = {"sources": of, "probe_tuples": probe_tuples}
    run = split_stream(chosen, hashes, workers, estimate=known, **options)
    oracle = None
    if known != "global" and chosen.estimates_load:
        oracle = split_stream(chosen, hashes, workers, estimate="global", **options)
    figures = {
        "file": keys,
        "scheme": chosen.name,
        "parameters": vars(chosen),
        "workers": workers,
        "sources": sources,
        "estimate": known if chosen.estimates_load else None,
        "feed": feed,
        **_figures(run, oracle),
    }
    if json_output:
        print_json(figures)
    else:
        _show(figures, chosen)


def _scheme(name: str, choices: int | None, distinct: bool, seed: int) -> Splitter:
    """Return the scheme; options that were not given are left to it."""
    from unskew.splitters import splitter

    given: dict[str, Any] = {"seed": seed}
    if distinct:
        given["distinct"] = True
    if choices is not None and name == "pkg":
        if choices != 2:
            raise ArgumentError("pkg has two choices", where="--choices", got=choices, hint="try --scheme greedy-d")
    elif choices is not None:
        given["choices"] = choices
    return splitter(name, **given)


def _read(path: Path, column: str | None) -> NDArray[np.int64]:
    from unskew.hashing import hash_keys, xxhash64

    if not path.exists():
        raise ArgumentError("there is no such file", got=str(path))
    if path.is_dir() or path.suffix.lower() in {".parquet", ".pq"}:
        return hash_keys(_parquet(path, column), column or "key")
    if column is not None:
        raise ArgumentError("a text file has no columns", where="--column", got=column, hint="leave it out")
    return xxhash64([_lines(path)])


def _parquet(path: Path, column: str | None) -> pa.Table:
    import pyarrow as pa
    import pyarrow.dataset

    try:
        data = pa.dataset.dataset(path, format="parquet")
        if not data.schema.names:
            raise _without_keys(path)
        wanted = column or "key"
        return data.to_table(columns=[wanted] if wanted in data.schema.names else None)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"the file cannot be read: {error}", where=str(path)) from error


def _without_keys(path: Path) -> FormatError:
    return FormatError("there are no rows", where=str(path), hint=NO_KEYS)


def _lines(path: Path) -> pa.Array:
    """Return the lines as keys; a line without text is a key as well."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        what = f"the file is not text: byte {error.start} is not UTF-8"
        raise FormatError(what, where=str(path), hint="a Parquet file ends in .parquet") from error
    if not text:
        return pa.array([], pa.string())
    lines = pc.split_pattern(pa.array([text.removesuffix("\n")], pa.large_string()), "\n").flatten()
    return pc.utf8_rtrim(lines, "\r")


def _figures(run: SplitStream, oracle: SplitStream | None) -> dict[str, Any]:
    import numpy as np

    from unskew.splitters.outcome import agreement, count_counters, imbalance_curve

    curve, counters, loads = imbalance_curve(run), count_counters(run), run.loads
    alike = agreement(run, oracle) if oracle is not None else None
    hottest = np.unique(run.hashes, return_counts=True)[1].max()
    tuples = len(run.hashes)
    return {
        "tuples": tuples,
        "distinct_keys": counters.keys,
        "top_share": float(hottest / tuples),
        "imbalance_tuples": float(curve.imbalance[-1]),
        "imbalance_at_end": curve.at_end,
        "imbalance_average": curve.average,
        "imbalance_relative": curve.relative,
        "bound_by_sources_tuples": float(curve.bound[-1]),
        "max_over_mean": float(loads.max() / loads.mean()),
        "loads": loads,
        "counters": counters.total,
        "counters_per_worker": counters.per_worker,
        "memory_relative_to_key_grouping": counters.relative_to_key_grouping,
        "most_channels_of_a_key": counters.most_channels,
        "agreement_with_oracle": alike.equal if alike else None,
        "jaccard_with_oracle": alike.jaccard if alike else None,
    }


def _show(figures: dict[str, Any], chosen: Splitter) -> None:
    loads, counters = figures["loads"], figures["counters_per_worker"]
    shown = range(len(loads)) if len(loads) <= CHANNELS_SHOWN else (-loads).argsort(kind="stable")[:CHANNELS_SHOWN]
    which = "" if len(shown) == len(loads) else f"the {CHANNELS_SHOWN} fullest of {len(loads)}; "
    console.print(f"[bold]tuples per channel[/]  {which}mean {loads.mean():,.6g}; beside each, its counters")
    notes = [f"{loads[i]:,} {counters[i]:>9,}" for i in shown]
    console.print(bars([str(i) for i in shown], [int(loads[i]) for i in shown], notes=notes, mean=loads.mean()))
    rows = {
        "scheme": f"{chosen}",
        "stream": f"{counted(figures['tuples'], 'tuple')} of {counted(figures['distinct_keys'], 'key')}, the hottest "
        f"{figures['top_share']:.2%}",
        "imbalance": f"{figures['imbalance_at_end']:.2e} of the tuples at the end, "
        f"{figures['imbalance_average']:.2e} on average",
        "fullest channel": f"{figures['max_over_mean']:.4f} times the mean",
        "memory": f"{counted(figures['counters'], 'counter')}, "
        f"{figures['memory_relative_to_key_grouping']:.2f} times those of key grouping; "
        f"a key on up to {counted(figures['most_channels_of_a_key'], 'channel')}",
    }
    if figures["agreement_with_oracle"] is not None:
        rows["agreement"] = (
            f"{figures['agreement_with_oracle']:.1%} of the choices are those of an oracle that knows all loads "
            f"(Jaccard {figures['jaccard_with_oracle']:.1%})"
        )
    console.print()
    print_table(rows)
    needed = math.ceil(figures["top_share"] * figures["workers"])
    if figures["max_over_mean"] > 1.1 and needed > chosen.most_channels(figures["workers"]):
        console.print(
            f"\n[yellow]The hottest key is too much for {chosen.most_channels(figures['workers'])} of "
            f"{figures['workers']} channels: it takes {needed} at least.[/] Try --scheme d-choices."
        )
