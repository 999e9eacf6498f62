"""What a peer is: an engine that keeps a running count and sum of every key over files of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Totals = dict[str, tuple[int, float]]  # count and sum of each key


@dataclass(frozen=True)
class Peer:
    """An engine."""

    name: str  # what it is called in the report
    # reads a folder of Parquet files in order, with columns key and value, gives every key's running count and sum as
    # it goes, and returns the last ones. The time that it takes is measured, without `missing`.
    run: Callable[[Path], Totals]
    missing: Callable[[], str | None]  # returns why it cannot run here, or None


def not_installed(package: str, extra: str = "pip install 'unskew[peers]'") -> Callable[[], str | None]:
    """Return a function that says that a package is not there, if so.

    >>> not_installed("json")() is None
    True
    >>> not_installed("no_such_package")()
    "no_such_package is not installed (pip install 'unskew[peers]')."
    """
    from importlib.util import find_spec

    return lambda: None if find_spec(package) else f"{package} is not installed ({extra})."
