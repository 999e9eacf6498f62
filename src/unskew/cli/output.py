"""What all commands print with: a console for people, JSON for programs, one line for errors."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unskew.errors import UnskewError

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False, soft_wrap=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value for programs instead of text.")]


def print_json(value: object) -> None:
    """Print `value` as JSON on standard output; NaN and infinities, which JSON lacks, become null.

    >>> print_json({"loads": (1.0, float("nan"))})
    {
      "loads": [
        1.0,
        null
      ]
    }
    """
    sys.stdout.write(json.dumps(_plain(value), indent=2, ensure_ascii=False) + "\n")


def print_error(error: UnskewError, as_json: bool) -> None:
    """Print `error` on standard error: one red line, or one JSON object."""
    if as_json:
        named = {"error": type(error).__name__, "what": error.what, "where": error.where, "got": error.got}
        sys.stderr.write(json.dumps(_plain({**named, "hint": error.hint}), ensure_ascii=False) + "\n")
    else:
        errors.print(f"[bold red]{type(error).__name__}:[/] {escape(str(error))}")


def _plain(value: Any) -> Any:
    """Turn dataclasses, numpy scalars and arrays, paths and tuples into what json can write."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy, without importing it
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bool | int | str) or value is None:
        return value
    return str(value)


def print_list(entries: Sequence[Mapping[str, Any]], json_output: bool) -> None:
    """Print what there is to choose from: each entry's ``name`` and ``summary``; as JSON, all it has."""
    if json_output:
        print_json(entries)
        return
    table = Table.grid(padding=(0, 2))
    for entry in entries:
        table.add_row(f"[cyan]{entry['name']}[/]", entry["summary"])
    console.print(table)


def print_classes(registered: Mapping[str, Any], json_output: bool) -> None:
    """Print the classes of a registry, with their parameters as JSON."""
    import inspect

    entries = [
        {"name": name, "summary": kind.summary, "parameters": list(inspect.signature(kind).parameters)}
        for name, kind in registered.items()
    ]
    print_list(entries, json_output)


def print_table(rows: Mapping[str, str]) -> None:
    """Print names in bold, each beside its text."""
    table = Table.grid(padding=(0, 2))
    for name, text in rows.items():
        table.add_row(f"[bold]{name}[/]", text)
    console.print(table)
