"""Every operator of the gallery is reached by its name, with parameters in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from unskew.cli import main
from unskew.jobs.operators import known_operators, make_operator
from unskew.testing import run, write_batches

# operator, key, parameters as they are typed
CASES: dict[str, tuple[str, dict[str, str]]] = {
    "aggregate": ("user", {"n": "count", "best": "top(amount, 2)"}),
    "decision-tree": ("label", {"features": '["amount", "id"]', "classes": '["x", "y"]', "min_rows": "50"}),
    "heaviest-keys": ("user", {"k": "5"}),
    "heavy-hitters": ("user", {"item": "word", "capacity": "5"}),
    "histogram": ("user", {"column": "amount", "bins": "8"}),
    "history": ("user", {"rows": "3", "mean": "mean(amount)"}),
    "interval-join": ("user", {"left": "a", "right": "b", "earliest": "0 seconds", "latest": "5 seconds"}),
    "naive-bayes": ("word", {"label": "label", "classes": '["x", "y"]'}),
    "naive-bayes-classifier": ("id", {"words": "words", "label": "told", "classes": '["x", "y"]'}),
    "progressive-sort": ("user", {"time": "at"}),
    "self-join": ("user", {"time": "at", "within": "5 seconds", "columns": '["id"]', "where": "left_id < right_id"}),
    "session-aggregate": ("user", {"gap": "2 seconds", "n": "count"}),
    "table-join": ("user", {"table": "a", "how": "left"}),
    "window-aggregate": ("user", {"size": "10 seconds", "n": "count"}),
}

TIMED = ("interval-join", "progressive-sort", "self-join", "session-aggregate", "window-aggregate")


def batches() -> list[pa.Table]:
    """Return rows that suit all: those of two streams, named a and b, and columns for everything else."""
    random, tables = np.random.default_rng(0), []
    for batch in range(2):
        at = pa.array((1_700_000_000 + 60 * batch + random.integers(0, 30, 200)) * 1_000_000, pa.timestamp("us", "UTC"))
        side = random.choice(["a", "b"], 200)
        columns = {
            "user": random.integers(0, 9, 200),
            "at": at,
            "id": np.arange(200) + 200 * batch,
            "amount": random.integers(0, 30, 200).astype(float),
            "word": random.choice(["tea", "ink", "jam"], 200),
            "label": random.choice(["x", "y"], 200),
            "words": pa.array([["tea"], ["ink", "jam"]] * 100),
            "told": pa.array(["x", None] * 100),
            "input": side,
            "time": at,
            "a_city": pa.array(random.choice(["Rome", "Oslo"], 200), mask=side == "b"),
            "b_page": pa.array(random.integers(0, 5, 200), mask=side == "a"),
        }
        tables.append(pa.table(columns))
    return tables


def needed(name: str) -> list[pa.Table]:
    """Return the rows as an operator takes them: two streams have no other columns than theirs."""
    two = ["user", "input", "time", "a_city", "b_page"]
    kept = two if name == "interval-join" else [column for column in two if column != "time"]
    return [table.select(kept) if name in ("interval-join", "table-join") else table for table in batches()]


def test_all_operators_are_tried() -> None:
    assert [*CASES] == [*known_operators()]


@pytest.mark.parametrize("name", CASES)
def test_parameters_in_words_make_an_operator_that_works(name: str) -> None:
    key, parameters = CASES[name]
    rows = needed(name)
    watermark = (("time" if name == "interval-join" else "at"), "10 seconds") if name in TIMED else None
    result = run(make_operator(name, parameters), [*rows, rows[0].slice(0, 0)], key=key, watermark=watermark)
    assert sum(output.num_rows for output in result.outputs) > 0


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_command_line_reaches_it(spark, tmp_path: Path, name: str, capsys) -> None:
    key, parameters = CASES[name]
    write_batches(tmp_path / "in", needed(name))
    column = "time" if name == "interval-join" else "at"
    with pytest.raises(SystemExit) as stopped:
        main(
            (
                *("run", "--source", f"parquet:{tmp_path / 'in'}", "--source-option", "maxFilesPerTrigger=1"),
                *("--key", key, "--operator", name, "--channels", "2", "--sink", f"parquet:{tmp_path / 'out'}"),
                *(word for item in parameters.items() for word in ("--with", "=".join(item))),
                *(("--watermark", f"{column} 10 seconds") if name in TIMED else ()),
            )
        )
    assert int(stopped.value.code or 0) == 0, capsys.readouterr().err
    assert spark.read.parquet(str(tmp_path / "out")).count() > 0
