"""TPC-H for query 5, as streams: the rows of dbgen, with foreign keys redrawn by a law that changes."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from unskew.errors import ArgumentError, MissingPackageError
from unskew.workloads.base import EVENT_TIME, START
from unskew.workloads.fluctuation import Fluctuation
from unskew.workloads.span import Span
from unskew.workloads.zipf import Zipf

ForeignKey = Literal["o_custkey", "l_orderkey", "l_suppkey"]

COLUMNS = {
    "orders": ["o_orderkey", "o_orderdate"],
    "lineitem": ["l_shipdate", "l_extendedprice", "l_discount"],
    "customer": ["c_custkey", "c_nationkey"],
    "supplier": ["s_suppkey", "s_nationkey"],
    "nation": ["n_nationkey", "n_name", "n_regionkey"],
    "region": ["r_regionkey", "r_name"],
}
REFERENCED = {"o_custkey": "customer", "l_orderkey": "orders", "l_suppkey": "supplier"}

FIRST_DAY = np.datetime64("1992-01-01")
DAYS = 2_527  # from the first order to 1998-12-01, when the last one is shipped


class Tables(NamedTuple):
    """The six tables; `orders` and `lineitem` in order of event time."""

    orders: pa.Table
    lineitem: pa.Table
    customer: pa.Table
    supplier: pa.Table
    nation: pa.Table
    region: pa.Table


@dataclass(frozen=True, kw_only=True)
class DbgenKeys(Zipf):
    """Zipf's law over the primary keys of a table as dbgen numbers them, from 1."""

    sparse: bool = False  # of every 32 numbers only 8 are used, as for orders

    def names(self, ids: NDArray[np.int64]) -> pa.Array:
        numbers = np.asarray(ids, np.int64) + 1
        return pa.array(numbers // 8 * 32 + numbers % 8 if self.sparse else numbers)


@dataclass(frozen=True, kw_only=True)
class Tpch:
    """TPC-H as two streams, orders and line items, and four small tables.

    Orders happen on their order date and line items when they are shipped. The seven years of TPC-H run within
    `span_seconds`; all days are equally long, and the rows of a day are evenly spread. Foreign keys (orders to
    customers, line items to orders and to suppliers) are drawn anew by Zipf's law, independently of each other. Every
    `change_seconds` the keys trade frequencies until some channel's load has changed by `rate`; see `Fluctuation`. The
    defaults are those of Fang et al., on less data: scale 1 is a gigabyte.

    Needs the package ``tpchgen-cli``, which writes the same tables as dbgen. It runs once per process and scale. The
    tables take 4 MB of memory at scale 0.01, and grow with the scale.

    Source: Fang et al., section V, figure 16; TPC Benchmark H, sections 2.4.5 and 4.2.

    >>> tables = Tpch(scale=0.001).tables()
    >>> tables.orders.num_rows, tables.lineitem.num_rows, tables.customer.num_rows, tables.supplier.num_rows
    (1500, 6005, 150, 10)
    >>> tables.lineitem.column_names
    ['l_orderkey', 'l_suppkey', 'l_extendedprice', 'l_discount', 'l_time']
    """

    scale: float = 0.01  # TPC-H's scale factor: 1 has 1.5 million orders and 6 million line items
    seed: int = 0  # chooses one of many equally likely draws of the foreign keys
    exponent: float = 0.8  # of Zipf's law
    rate: float = 1.0  # f in the paper; 0 draws by one law throughout
    channels: int = 4  # on which the change is measured
    span_seconds: float = 3_600.0  # event time from first to last row
    change_seconds: float = 900.0  # event time between two changes

    def __post_init__(self) -> None:
        for name in ("scale", "channels", "span_seconds", "change_seconds"):
            if not getattr(self, name) > 0:
                raise ArgumentError(f"{name} must be above 0", where="TPC-H", got=getattr(self, name))
        for name in ("seed", "exponent", "rate"):
            if not getattr(self, name) >= 0:
                raise ArgumentError(f"{name} must be 0 or more", where="TPC-H", got=getattr(self, name))

    def tables(self) -> Tables:
        made = _dbgen(self.scale)
        orders, o_time = self._in_time(made["orders"], "o_orderdate")
        lineitem, l_time = self._in_time(made["lineitem"], "l_shipdate")
        order_columns = {
            "o_orderkey": orders["o_orderkey"],
            "o_custkey": self._redrawn("o_custkey", o_time),
            "o_time": pa.array(o_time).cast(EVENT_TIME),
        }
        item_columns = {
            "l_orderkey": self._redrawn("l_orderkey", l_time),
            "l_suppkey": self._redrawn("l_suppkey", l_time),
            "l_extendedprice": lineitem["l_extendedprice"],
            "l_discount": lineitem["l_discount"],
            "l_time": pa.array(l_time).cast(EVENT_TIME),
        }
        small = (made[name] for name in ("customer", "supplier", "nation", "region"))
        return Tables(pa.table(order_columns), pa.table(item_columns), *small)

    def law(self, column: ForeignKey) -> Fluctuation:
        """Return the law by which a foreign key is drawn; an interval lasts from one change to the next."""
        if column not in REFERENCED:
            hint = f"one of {', '.join(REFERENCED)}"
            raise ArgumentError("there is no such foreign key", where="TPC-H", got=column, hint=hint)
        base = DbgenKeys(
            seed=len(REFERENCED) * self.seed + get_args(ForeignKey).index(column),  # columns must be independent
            interval_seconds=self.change_seconds,
            exponent=self.exponent,
            key_count=_dbgen(self.scale)[REFERENCED[column]].num_rows,
            sparse=column == "l_orderkey",
        )
        return Fluctuation(base=base, rate=self.rate, channels=self.channels)

    def slices(self, rows: pa.Table, count: int) -> list[pa.Table]:
        """Cut a stream into `count` slices of equal event time, which may differ in rows."""
        if count < 1:
            raise ArgumentError("a stream has one slice or more", where="TPC-H", got=count)
        times = rows.column(rows.num_columns - 1).cast(pa.int64()).to_numpy()
        edges = -(-np.arange(count + 1) * round(self.span_seconds * 1e6) // count)
        places = np.searchsorted(times, START + edges)
        return [rows.slice(start, stop - start) for start, stop in pairwise(places.tolist())]

    def _in_time(self, rows: pa.Table, date: str) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return the rows by date, and their event times in microseconds."""
        days = (rows[date].to_numpy().astype("datetime64[D]") - FIRST_DAY).astype(np.int64)
        order = np.argsort(days, kind="stable")
        days = days[order]
        first = np.searchsorted(days, days, side="left")
        in_day = np.searchsorted(days, days, side="right") - first
        elapsed = days + (np.arange(days.size) - first) / in_day
        times = START + (elapsed * (self.span_seconds * 1e6 / DAYS)).astype(np.int64)
        return rows.take(pa.array(order)), times

    def _redrawn(self, column: ForeignKey, times: NDArray[np.int64]) -> pa.Array:
        law = self.law(column)
        intervals = (times - START) // round(self.change_seconds * 1e6)
        rows_of = np.bincount(intervals)
        drawn = [law.draw(Span.partition(number, int(rows))) for number, rows in enumerate(rows_of)]
        return law.names(np.concatenate(drawn))


def generator() -> str:
    """Return the path of the program that writes TPC-H's tables."""
    found = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or shutil.which("tpchgen-cli")
    if found is None:
        hint = "pip install 'unskew[tpch]'"
        raise MissingPackageError("TPC-H needs the package tpchgen-cli", hint=hint)
    return found


@lru_cache(maxsize=2)
def _dbgen(scale: float) -> dict[str, pa.Table]:
    with TemporaryDirectory() as folder:
        tables = ["--tables", ",".join(COLUMNS)]
        command = [generator(), "parquet", "--scale-factor", str(scale), "--output-dir", folder, *tables, "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ArgumentError(f"tpchgen-cli failed: {done.stderr.strip()}", where="TPC-H", got=scale)
        files = {name: Path(folder) / f"{name}.parquet" for name in COLUMNS}
        return {name: _plain(pq.read_table(file, columns=COLUMNS[name])) for name, file in files.items()}


def _plain(table: pa.Table) -> pa.Table:
    """Return the columns without the file's metadata, texts as plain strings."""
    kinds = [pa.string() if pa.types.is_string_view(kind) else kind for kind in table.schema.types]
    return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))
