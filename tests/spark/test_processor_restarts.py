"""A processor that asks for other state variables after a restart, under Spark alone and under unskew."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import unskew
from chaos.ledger import RandomMoves
from native_jobs.case import Case, events
from native_jobs.running import Kept, run
from unskew.errors import CheckpointError
from unskew.testing import write_batches

pytestmark = pytest.mark.spark

cloudpickle.register_pickle_by_value(sys.modules[__name__])

OUTPUT = "user string, told string"


class Before(StatefulProcessor):
    """Counts rows."""

    kind = "n long"

    def init(self, handle: Any) -> None:
        self.n = handle.getValueState("n", self.kind)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        (n,) = self.n.get() or (0,)
        some = list(rows)
        self.n.update((n + len(some),))
        yield Row(user=key[0], told=repr((self.n.get(), *self.more(some))))

    def more(self, rows: list[Row]) -> list[Any]:
        return []


class After(Before):
    """Keeps the amounts, too, and how often each thing was done."""

    def init(self, handle: Any) -> None:
        self.amounts = handle.getListState("amounts", "amount long")
        super().init(handle)
        self.often = handle.getMapState("often", "what string", "n long")

    def more(self, rows: list[Row]) -> list[Any]:
        before = self.amounts.exists(), list(self.amounts.get())
        for row in rows:
            (n,) = self.often.getValue((row.what,)) or (0,)
            self.often.updateValue((row.what,), (n + 1,))
            self.amounts.appendValue((row.amount,))
        return [before, sorted(tuple(map(tuple, each)) for each in self.often.iterator())]


class OfOtherType(Before):
    """Counts in text."""

    kind = "n string"


def test_variables_may_be_added_between_two_starts(rocksdb: SparkSession, tmp_path: Path) -> None:
    tables = events(1)
    settings: dict[str, Any] = {"channels": 3, "planner": RandomMoves(seed=1), "min_gain": -np.inf, "slots": 64}

    def results(name: str) -> Any:
        found = []
        for processor, some, first in ((Before(), tables[:2], 0), (After(), tables[2:], 2)):
            folder = tmp_path / name / "rows"
            write_batches(folder, some, first=first)
            kept = Kept(Case(type(processor), by_row=True), inputs=len(some))
            query = run(made(folder, processor, name), tmp_path / name / "checkpoint", kept)
            found.append(kept.output())
        return found, query

    def made(folder: Path, processor: StatefulProcessor, name: str) -> Any:
        schema = "user string, at timestamp, amount long, what string, ms long"
        stream = rocksdb.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
        grouped: Any = stream.groupBy("user") if name == "native" else unskew.balance(stream, "user", **settings)
        return grouped.transformWithState(processor, OUTPUT, "update", "None")

    (native, _), (ours, query) = results("native"), results("ours")
    assert ours == native
    assert len(native[1]) == 2 and any("[(4" in row or "[(1" in row for rows in native[1].values() for row in rows)
    assert query.moves
    held = unskew.read_state(rocksdb, str(tmp_path / "ours" / "checkpoint")).toArrow()
    assert pa.types.is_list(held.schema.field("often").type) and held["n"].null_count == 0
    assert sum(row["n"] for row in held["n"].to_pylist()) == sum(table.num_rows for table in tables)

    for processor in (Before(), OfOtherType()):
        with pytest.raises(CheckpointError, match="this checkpoint was written with operator"):
            stage = made(tmp_path / "ours" / "rows", processor, "ours")
            stage.writeStream.option("checkpointLocation", str(tmp_path / "ours" / "checkpoint")).start()
