"""Whether every row was applied once and in order, judged by what a job has written and nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Row = Mapping[str, Any]
Batches = Sequence[Sequence[Row]]


class Broken(AssertionError):
    """The rows are not what they must be; says which one is the first to be wrong."""


def outputs(folder: Path) -> list[list[Row]]:
    """Return what a sink has written, batch by batch in order, without batches that have no file."""
    found = sorted(folder.glob("batch_id=*"), key=lambda path: int(path.name.split("=")[1]))
    full = [path for path in found if any(path.glob("*.parquet"))]
    return [pq.read_table(path, partitioning=None).to_pylist() for path in full]


def check_chain(batches: Batches, truth: Mapping[Any, int], ordered: bool = True) -> None:
    """Check the output of `ledger.Ledger`: every link of every key's chain, the order of rows, and their number."""
    count: dict[Any, int] = {}
    secret: dict[Any, int] = {}
    for number, rows in enumerate(batches):
        for row in rows:
            key = row["key"]
            if row["old_secret"] != secret.get(key):
                raise Broken(f"the chain of {key!r} breaks in batch {number}: {row}")
            if row["rows"] <= count.get(key, 0):
                raise Broken(f"the count of {key!r} does not grow in batch {number}: {row}")
            if ordered and row["disorder"]:
                raise Broken(f"rows of {key!r} came twice or out of order in batch {number}: {row}")
            count[key], secret[key] = row["rows"], row["secret"]
    _same(count, truth, "rows")


def check_lives(batches: Batches, truth: Mapping[Any, int]) -> None:
    """Check keys that are forgotten after a while: each life is a chain, and all lives together have all rows.

    The last row of a life says that it is closed, and repeats its count.
    """
    count: dict[Any, int] = defaultdict(int)  # of the life that is going on
    secret: dict[Any, int] = {}
    lived: Counter[Any] = Counter()
    for number, rows in enumerate(batches):
        for row in rows:
            key = row["key"]
            if row["old_secret"] != secret.get(key):
                raise Broken(f"the chain of {key!r} breaks in batch {number}: {row}")
            if row["disorder"]:
                raise Broken(f"rows of {key!r} came twice or out of order in batch {number}: {row}")
            if row["closed"]:
                if not count[key] or row["rows"] != count[key]:
                    raise Broken(f"{key!r} ends with {row['rows']} rows, not {count[key]}, in batch {number}")
                lived[key] += count.pop(key)
                del secret[key]
                continue
            if row["rows"] <= count[key]:
                raise Broken(f"the count of {key!r} does not grow in batch {number}: {row}")
            count[key], secret[key] = row["rows"], row["secret"]
    _same(lived + Counter(count), truth, "rows")


def check_totals(batches: Batches, files: Sequence[Sequence[Row]]) -> None:
    """Check every row of running totals: each batch's are those of all files up to the latest that it has read."""
    truth: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    read = 0
    for number, rows in enumerate(batches):
        if not rows:
            raise Broken(f"batch {number} has no rows")
        latest, touched = max(row["latest"] for row in rows), set()
        for row in [row for file in files[read : latest + 1] for row in file]:
            truth[row["key"]][0] += 1
            truth[row["key"]][1] += row["sequence"]
            touched.add(row["key"])
        read = latest + 1
        if len(rows) != len(touched):
            raise Broken(f"batch {number} has {len(rows)} rows for {len(touched)} keys")
        for row in rows:
            if [row["rows"], row["total"]] != truth[row["key"]]:
                raise Broken(f"{row} in batch {number}, not {truth[row['key']]}")
    if read != len(files):
        raise Broken(f"{read} of {len(files)} files were read")


def check_once(batches: Batches, expected: Iterable[Row]) -> None:
    """Check that every expected row was written once, in whatever batch, and no other."""
    times = Counter(_plain(row) for rows in batches for row in rows)
    wanted = Counter(map(_plain, expected))
    lost, more = wanted - times, times - wanted
    if lost:
        raise Broken(f"{lost.total()} rows are missing, such as {next(iter(lost))}")
    if more:
        raise Broken(f"{more.total()} rows are wrong or too many, such as {next(iter(more))}")


def check_last(batches: Batches, expected: Iterable[Row]) -> None:
    """Check that the last row that was written for each key is the expected one; other columns do not count."""
    wanted = {row["key"]: dict(row) for row in expected}
    last = {row["key"]: row for rows in batches for row in rows}
    for key, row in wanted.items():
        if key not in last or any(last[key][name] != value for name, value in row.items()):
            raise Broken(f"the last row of {key!r} is {last.get(key)}, but Spark has {row}")
    if last.keys() - wanted.keys():
        raise Broken(f"there are keys that Spark does not have: {sorted(map(str, last.keys() - wanted.keys()))[:3]}")


def _same(found: Mapping[Any, int], truth: Mapping[Any, int], what: str) -> None:
    for key in {**truth, **found}:
        if found.get(key, 0) != truth.get(key, 0):
            raise Broken(f"{key!r} has {found.get(key, 0)} {what}, not {truth.get(key, 0)}")


def _plain(row: Row) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in row.items()))
