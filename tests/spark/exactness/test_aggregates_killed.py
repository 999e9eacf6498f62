"""Every batch of every aggregate is Spark's own, although the process is killed in the middle of each query."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unskew.testing import write_batches

sys.path.insert(0, str(Path(__file__).parent))

from kills import committed, run_queries

JOB = Path(__file__).parent / "aggregates_job.py"
NAMES = ("running", "tumbling", "sliding", "sessions")
START = datetime(2024, 1, 1, tzinfo=UTC).timestamp()
BATCHES, ROWS, SECONDS = 6, 400, 20


def drawn(stream: str) -> list[pa.Table]:
    """Return batches of 20 seconds: keys and values may be null, some rows are late, some far too late."""
    rng = np.random.default_rng(len(stream))
    tables = []
    for batch in range(BATCHES):
        if stream == "uniform":
            keys = rng.integers(0, 40, ROWS)
        else:  # other keys are hot in every batch of a drifting stream
            keys = (rng.zipf(1.5, ROWS) + (7 * batch if stream == "drifting" else 0)) % 40
        late = rng.choice([0.0, 5.0, 60.0], ROWS, p=[0.9, 0.05, 0.05])
        seconds = START + SECONDS * (batch + 5 + rng.random(ROWS)) - late
        values = np.round(4 * rng.normal(size=ROWS)) / 4  # whose sums are exact in any order
        tables.append(
            pa.table(
                {
                    "key": pa.array([None if k == 5 else f"k{k}" for k in keys.tolist()], pa.string()),
                    "at": pa.array((seconds * 1e6).astype(np.int64)).cast(pa.timestamp("us", "UTC")),
                    "id": np.arange(ROWS) + ROWS * batch,
                    "value": pa.array(values, mask=rng.random(ROWS) < 0.1),
                    "word": pa.array([None if w == 3 else f"w{w}" for w in rng.integers(0, 9, ROWS).tolist()]),
                }
            )
        )
    return tables


def as_run(home: Path, name: str, tables: list[pa.Table]) -> list[pa.Table]:
    """Return the rows as the batches of a query had them: a batch has two files if its driver died between two logs."""
    offsets = home / "checkpoints" / name / "offsets"
    read, together = 0, []
    for number in range(sum(path.name.isdigit() for path in offsets.iterdir())):
        sources = (offsets / str(number)).read_text().splitlines()[2:]
        upto = next(int(json.loads(line)["logOffset"]) for line in sources if "logOffset" in line) + 1
        if upto > read:
            together.append(pa.concat_tables(tables[read:upto]))
        read = upto
    assert read == len(tables)
    return together


def batches(home: Path, name: str) -> list[list[tuple[str, list[float]]]]:
    """Return the output of every batch that has some, in order: rows as text without fractions, and the fractions."""
    folders = sorted((home / "out" / name).glob("batch_id=*"), key=lambda path: int(path.name.split("=")[1]))
    outputs = [sorted(map(_parted, pq.read_table(each, partitioning=None).to_pylist())) for each in folders]
    return [rows for rows in outputs if rows]


def _parted(row: dict[str, Any]) -> tuple[str, list[float]]:
    fractions = [value for value in row.values() if isinstance(value, float)]
    return str([type(value) if isinstance(value, float) else value for value in row.values()]), fractions


def equal(found: list[tuple[str, list[float]]], expected: list[tuple[str, list[float]]]) -> bool:
    """Tell whether rows are the same but for the last digits of fractions."""
    return [text for text, _ in found] == [text for text, _ in expected] and all(
        np.allclose(ours, sparks, rtol=1e-9, atol=1e-9) for (_, ours), (_, sparks) in zip(found, expected, strict=True)
    )


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("stream", "side"), [("uniform", "plain"), ("zipf", "moving"), ("drifting", "plain"), ("drifting", "moving")]
)
def test_killed_aggregates_give_what_spark_gives_in_every_batch(tmp_path: Path, stream: str, side: str) -> None:
    tables, ours, native = drawn(stream), tmp_path / "ours", tmp_path / "native"
    for name in NAMES:
        write_batches(ours / "data" / name, tables)
    killed = run_queries(JOB, ours, side, NAMES, most=BATCHES - 2, kill=True)
    for name in NAMES:
        assert 0 < killed[name] < committed(ours, name), f"{name} was killed in the middle"
        write_batches(native / "data" / name, as_run(ours, name, tables))
    run_queries(JOB, native, "native", NAMES, most=0, kill=False)
    for name in NAMES:
        found, expected = batches(ours, name), batches(native, name)
        assert len(found) == len(expected) > 1, name
        for batch, (rows, sparks) in enumerate(zip(found, expected, strict=True)):
            assert equal(rows, sparks), f"{name}, batch {batch}"
