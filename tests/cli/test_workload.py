import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from unskew.cli import app
from unskew.errors import ArgumentError
from unskew.workloads import WORKLOADS, describe, workload


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["workload", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_list_names_all() -> None:
    listed = json.loads(run("--list", "--json"))
    assert [each["name"] for each in listed] == sorted(WORKLOADS)
    assert all(each["summary"] for each in listed)
    assert {"name", "summary", "options"} == set(listed[0])
    text = run("--list")
    assert all(name in text for name in WORKLOADS)


def test_description_as_json() -> None:
    answer = json.loads(
        run(
            "zipf",
            "--describe",
            "--set",
            "exponent=1.2",
            "--rows",
            "5000",
            "--channels",
            "8",
            "--channels",
            "3",
            "--json",
        )
    )
    expected = describe(workload("zipf", exponent=1.2), n=5000, channels=[8, 3])
    assert answer["distinct_keys"] == expected.distinct_keys
    assert answer["top_keys"][0] == {"key": 0, "share": expected.top_share}
    assert [load["rows"] for load in answer["loads"]] == [list(load.rows) for load in expected.loads]


def test_description_for_people() -> None:
    text = run("zipf", "--describe", "--set", "exponent=1.2", "--rows", "20000")
    skew = describe(workload("zipf", exponent=1.2), n=20_000)
    eight = next(load for load in skew.loads if load.channels == 8)
    assert f"{skew.distinct_keys:,}" in text
    assert f"{skew.top_share:.2%}" in text
    assert f"{eight.times_shorter:.2f} x" in text
    assert f"{max(eight.rows):,}" in text
    assert "█" in text


def test_null_keys_have_a_name() -> None:
    assert "null" in run("flights", "--describe", "--set", "key=tailnum", "--rows", "336776")


def test_sample() -> None:
    rows = json.loads(run("edges", "--rows", "4", "--interval", "3", "--json"))
    expected = workload("edges").rows(3, 4)
    assert [row["source"] for row in rows] == expected["source"].to_pylist()
    assert rows[0]["event_time"] == "2024-01-01T00:00:30.000000+00:00"
    text = run("stock", "--rows", "3")
    assert all(key in text for key in workload("stock").rows(0, 3)["key"].to_pylist())


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_files(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / "new" / f"rows.{suffix}"
    answer = json.loads(
        run("stock", "--rows", "50", "--interval", "1", "--intervals", "2", "--out", str(out), "--json")
    )
    assert answer == {"file": str(out), "rows": 100}
    table = pyarrow.parquet.read_table(out) if suffix == "parquet" else pyarrow.csv.read_csv(out)
    expected = pa.Table.from_batches([workload("stock").rows(interval, 50) for interval in (1, 2)])
    for column in ("key", "value", "sequence"):
        assert table[column].to_pylist() == expected[column].to_pylist()
    assert "100 rows" in run("stock", "--rows", "50", "--intervals", "2", "--out", str(out))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no workload is named.*--list"),
        (["zipff"], "did you mean 'zipf'"),
        (["zipf", "--set", "exponent"], "expected NAME=VALUE, got 'exponent'"),
        (["zipf", "--set", "exponet=1"], "did you mean 'exponent'"),
        (["zipf", "--describe", "--rows", "0"], "there must be rows"),
        (["zipf", "--describe", "--channels", "0"], "channels must be 1 or more"),
        (["zipf", "--interval", "-1"], "interval must not be negative"),
        (["zipf", "--out", "rows.xlsx"], "end its name in .parquet or .csv"),
    ],
)
def test_what_is_wrong_is_named(arguments: list[str], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        run(*arguments)


def test_help_has_examples() -> None:
    assert "unskew workload zipf --describe --set exponent=1.2" in run("--help")
