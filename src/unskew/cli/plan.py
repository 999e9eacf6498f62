"""``unskew plan`` and ``unskew planners``: what a planner would do with given statistics."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from typer import Argument, Option

from unskew.bars import bars, counted
from unskew.cli.options import Planner, Tolerance, Words, pairs
from unskew.cli.output import Json, console, print_classes, print_json, print_table
from unskew.errors import ArgumentError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from unskew.load.files import KeyTable
    from unskew.planners import Assignment, Problem, Report
    from unskew.planners import Planner as AnyPlanner

MOVES_SHOWN = 40


def plan(
    stats: Annotated[Path, Argument(help="CSV or Parquet with columns key, cost [, state, channel, home].")],
    planner: Planner = "mixed",
    channels: Annotated[int, Option(help="How many channels to plan for.")] = 8,
    tolerance: Tolerance = None,
    table_cap: Annotated[int | None, Option(help="Most keys that may live away from home.")] = None,
    setting: Annotated[Words, Option("--set", metavar="NAME=VALUE", help="Another parameter of the planner.")] = None,
    assignments: Annotated[Path | None, Option(help="Write every key's channel to this Parquet file.")] = None,
    explain: Annotated[bool, Option("--explain", help="List the moves and the reason for each.")] = False,
    json_output: Json = False,
) -> None:
    r"""Plan which channel owns which key, and show the channels before and after.

    Column [bold]channel[/] says who owns a key now. It defaults to its home.
    Column [bold]home[/] says where the hash puts a key.
    It defaults to its place in a fresh routing table.
    Keys are taken in sorted order, which decides between equals.

    [bold]Examples[/]
    [cyan]unskew plan load.csv --planner mixed --channels 8[/]
    [cyan]unskew plan load.parquet --planner readj --tolerance 0.05 --explain[/]
    [cyan]unskew plan load.csv --set migration_exponent=1 \
        --assignments owners.parquet --json[/]
    """
    from unskew.load.files import read_key_table
    from unskew.planners import Memory
    from unskew.planners import planner as make_planner

    given = {"tolerance": tolerance, "table_cap": table_cap}
    parameters = {name: value for name, value in given.items() if value is not None} | _settings(setting)
    chosen = make_planner(planner, **parameters)
    table = read_key_table(stats)
    problem = _problem(table, chosen, channels)
    started = time.perf_counter()
    assignment = chosen.assign(problem, Memory())
    figures = chosen.describe(problem, assignment, seconds=time.perf_counter() - started)
    if assignments is not None:
        _write_assignments(assignments, table, problem, assignment.owner)
    if json_output:
        moves = {"moves": _moves(table, problem, assignment)} if explain else {}
        loads = {"loads_before": problem.loads_before(), "loads_after": problem.loads(assignment.owner)}
        print_json({**vars(figures), "unsplittable": _named(table, figures.unsplittable), **loads, **moves})
    else:
        _show(table, problem, assignment, figures, chosen, explain)


def planners(json_output: Json = False) -> None:
    """List the planners.

    [bold]Examples[/]
    [cyan]unskew planners[/]
    [cyan]unskew planners --json[/]
    """
    from unskew.planners import PLANNERS

    print_classes(PLANNERS, json_output)


def _settings(given: Words) -> dict[str, Any]:
    return {name: _value(text) for name, text in pairs(given, "--set").items()}


def _value(text: str) -> Any:
    """Return the number, truth value or none that a text spells, or else the text itself."""
    words: dict[str, Any] = {"true": True, "false": False, "none": None}
    for read in (words.__getitem__, int, float):
        with suppress(KeyError, ValueError):
            return read(text.lower())
    return text


def _problem(table: KeyTable, chosen: AnyPlanner, channels: int) -> Problem:
    import numpy as np

    from unskew.planners import Problem
    from unskew.routing import RoutingTable

    initial = RoutingTable.initial(channels)
    home = table.home
    if home is None:
        home = initial.with_slots(chosen.slots(initial, channels)).home(table.hashes)
    outside = np.flatnonzero(home >= channels)
    if len(outside):
        raise ArgumentError(
            f"home {home[outside[0]]} is not in 0..{channels - 1}",
            where=f"key {table.keys[int(outside[0])].as_py()!r}",
            hint="home is where the hash puts the key among the new number of channels",
        )
    current = table.channel if table.channel is not None else home
    return Problem.of_keys(
        table.cost, state=table.state, channels=channels, current=current, home=home, hashes=table.hashes
    )


def _write_assignments(path: Path, table: KeyTable, problem: Problem, owner: NDArray[np.int32]) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    columns = {"key": table.keys, "channel": owner, "channel_before": problem.current, "home": problem.home}
    path.parent.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(pa.table(columns), path)


def _moves(table: KeyTable, problem: Problem, assignment: Assignment) -> list[dict[str, Any]]:
    """Return every move with its reason, the most expensive first."""
    import numpy as np

    moved = np.flatnonzero(assignment.owner != problem.current)
    moved = moved[np.argsort(-problem.cost[moved], kind="stable")]
    mean, before = problem.mean_load or 1.0, problem.loads_before()
    rows = []
    for i in moved.tolist():
        source, target = int(problem.current[i]), int(assignment.owner[i])
        if source >= problem.channels:
            why = f"channel {source} leaves"
        elif before[source] > mean:
            why = f"channel {source} holds {before[source] / mean:.2f} times the mean"
        else:
            why = f"makes room on channel {source} for a heavier key"
        if target == problem.home[i]:
            why += "; goes home, its entry is dropped"
        key = table.keys[i].as_py()
        cost, state = float(problem.cost[i]), float(problem.state[i])
        rows.append({"key": key, "source": source, "target": target, "cost": cost, "state": state, "why": why})
    return rows


def _named(table: KeyTable, hashes: tuple[int, ...]) -> list[Any]:
    place = {hashed: i for i, hashed in enumerate(table.hashes.tolist())} if hashes else {}
    return [table.keys[place[hashed]].as_py() for hashed in hashes]


def _show(
    table: KeyTable, problem: Problem, assignment: Assignment, figures: Report, chosen: AnyPlanner, explain: bool
) -> None:
    for title, loads in (("before", problem.loads_before()), ("after", problem.loads(assignment.owner))):
        console.print(f"\n[bold]{title}[/]  cost per channel, mean {loads.mean():,.6g}")
        console.print(bars([str(i) for i in range(len(loads))], loads.tolist(), tolerance=chosen.tolerance))
    rows = {
        "planner": f"{chosen}",
        "overload": f"{figures.overload_before:.2%} before, {figures.overload_after:.2%} after "
        f"(tolerance {chosen.tolerance:.2%})",
        "keys moved": f"{figures.moved_keys:,} of {len(table.keys):,}",
        "state moved": f"{figures.migration_cost:,.6g} ({figures.migration_share:.2%})",
        "keys away from home": f"{figures.table_size:,}",
        "planned in": f"{figures.seconds * 1e3:,.1f} ms",
    }
    if figures.forced:
        rows["forced"] = f"{counted(figures.forced, 'key')} fitted nowhere within the tolerance"
    if figures.notes:
        rows["notes"] = ", ".join(figures.notes)
    console.print()
    print_table(rows)
    for key in _named(table, figures.unsplittable[:3]):
        console.print(
            f"\n[yellow]Key {key!r} alone is more than one channel may hold: no plan with one owner per key can "
            "balance it.[/]\nOperators that merge partial states (count, sum, min, max, mean, sketches) may split it "
            "over several channels; joins and order-dependent functions may not."
        )
    if explain:
        _show_moves(_moves(table, problem, assignment))


def _show_moves(moves: list[dict[str, Any]]) -> None:
    listing = Table(title=f"{counted(len(moves), 'move')}, the most expensive first")
    listing.add_column("key")
    for heading in ("from", "to", "cost"):
        listing.add_column(heading, justify="right")
    listing.add_column("why")
    for move in moves[:MOVES_SHOWN]:
        listing.add_row(str(move["key"]), str(move["source"]), str(move["target"]), f"{move['cost']:,.6g}", move["why"])
    console.print(listing)
    if len(moves) > MOVES_SHOWN:
        console.print(f"and {len(moves) - MOVES_SHOWN:,} more: --json prints all of them")
