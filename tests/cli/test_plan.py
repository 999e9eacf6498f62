import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from unskew.cli import app
from unskew.errors import ArgumentError, ColumnError, StatisticsError, UnskewError
from unskew.planners import PLANNERS

FIGURE_4 = """key,cost,state,channel,home
k1,7,7,0,0
k2,4,4,0,0
k3,2,2,1,0
k4,1,1,1,1
k5,5,5,0,1
k6,1,1,1,1
"""


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["plan", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def figure_4(tmp_path: Path) -> str:
    path = tmp_path / "figure4.csv"
    path.write_text(FIGURE_4)
    return str(path)


def test_fang_figure_4_by_min_table(figure_4: str, tmp_path: Path) -> None:
    owners = tmp_path / "owners.parquet"
    answer = json.loads(
        run(
            figure_4,
            "--planner",
            "mintable",
            "--channels",
            "2",
            "--tolerance",
            "0",
            "--assignments",
            str(owners),
            "--json",
        )
    )
    assert answer["loads_before"] == [16, 4]
    assert answer["loads_after"] == [10, 10]
    assert answer["migration_cost"] == 12
    assert answer["table_size"] == 2
    written = pa.parquet.read_table(owners).to_pydict()
    assert dict(zip(written["key"], written["channel"], strict=True)) == {
        "k1": 0, "k2": 1, "k3": 0, "k4": 0, "k5": 1, "k6": 1,
    }  # fmt: skip


def test_row_order_does_not_matter(figure_4: str, tmp_path: Path) -> None:
    header, *rows = FIGURE_4.splitlines()
    shuffled = tmp_path / "shuffled.csv"
    shuffled.write_text("\n".join([header, *reversed(rows)]))
    answers = [
        run(path, "--planner", "llfd", "--channels", "2", "--explain", "--json") for path in (figure_4, str(shuffled))
    ]
    plain = [{k: v for k, v in json.loads(a).items() if k != "seconds"} for a in answers]
    assert plain[0] == plain[1]
    assert [m["key"] for m in plain[0]["moves"]] == ["k1", "k4"]


def test_people_see_bars_figures_and_reasons(figure_4: str) -> None:
    output = run(figure_4, "--planner", "llfd", "--channels", "2", "--tolerance", "0", "--explain")
    assert "before" in output
    assert "60.00% before, 0.00% after" in output
    assert "channel 0 holds 1.60 times the mean" in output
    assert "makes room on channel 1" in output


def test_a_key_that_cannot_be_balanced_is_named_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "hot.csv"
    path.write_text("key,cost\nhot,100\n" + "".join(f"k{i},1\n" for i in range(20)))
    output = " ".join(run(str(path), "--planner", "mixed", "--channels", "4").split())
    assert "Key 'hot' alone is more than one channel may hold" in output
    assert "may split it" in output


@pytest.mark.parametrize("name", list(PLANNERS))
def test_odd_files_are_planned(name: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    for rows in ("a,1\n", "", "a,0\nb,0\n", "a,2\nb,2\nc,2\n"):
        path.write_text("key,cost\n" + rows)
        for channels in ("1", "3"):
            assert json.loads(run(str(path), "--planner", name, "--channels", channels, "--json"))["channels"] == int(
                channels
            )


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([3, None, 1], pa.int32()),
        pa.array([0.5, float("nan"), -0.0]),
        pa.array([b"a", b"", b"\xff"]),
        pa.array(["a", "b", "c"]).dictionary_encode(),
    ],
)
def test_keys_of_any_type(keys: pa.Array, tmp_path: Path) -> None:
    path = tmp_path / "keys.parquet"
    pa.parquet.write_table(pa.table({"key": keys, "cost": [1, 2, 3]}), path)
    assert sum(json.loads(run(str(path), "--planner", "keep", "--channels", "2", "--json"))["loads_after"]) == 6


def test_a_million_rows(tmp_path: Path) -> None:
    path = tmp_path / "million.parquet"
    cost = np.random.default_rng(0).zipf(1.5, 1_000_000).clip(0, 100_000)
    pa.parquet.write_table(pa.table({"key": np.arange(1_000_000), "cost": cost}), path)
    answer = json.loads(run(str(path), "--planner", "mixed", "--channels", "20", "--json"))
    assert answer["overload_after"] <= 0.08


@pytest.mark.parametrize(
    ("text", "arguments", "error", "message"),
    [
        ("key,cost\na,1\nb,-2\n", [], StatisticsError, r"cost must be .* got -2.0 \(in row 1\)"),
        ("key,cost\na,nan\n", [], StatisticsError, r"got nan \(in row 0\)"),
        ("key,cost\na,1\nb,\n", [], StatisticsError, r"got nan \(in row 1\)"),
        ("key,cost\na,many\n", [], StatisticsError, "column 'cost' is not numeric"),
        ("key,cots\na,1\n", [], ColumnError, "column 'cost' is missing .*Hint: rename 'cots'"),
        ("key,cost\na,1\nb,1\na,2\n", [], StatisticsError, "key 'a' stands in rows 0 and 2"),
        ("key,cost,home\na,1,9\n", [], ArgumentError, r"home 9 is not in 0\.\.3 \(in key 'a'\)"),
        ("key,cost,channel\na,1,0.5\n", [], StatisticsError, r"channel must be a channel number, got 0.5 \(in row 0\)"),
        ("key,cost\na,1\n", ["--planner", "mixt"], ArgumentError, "did you mean 'mixed'"),
        ("key,cost\na,1\n", ["--planner", "keep", "--table-cap", "3"], ArgumentError, "has no parameter 'table_cap'"),
        ("key,cost\na,1\n", ["--set", "beta"], ArgumentError, r"NAME=VALUE, got 'beta' \(in --set\)"),
        ("key,cost\na,1\n", ["--channels", "0"], UnskewError, "at least one channel, got 0"),
    ],
)
def test_bad_input_says_what_where_and_hint(
    text: str, arguments: list[str], error: type[Exception], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "stats.csv"
    path.write_text(text)
    with pytest.raises(error, match=message):
        run(str(path), "--channels", "4", *arguments)


def test_a_missing_or_strange_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no such file"):
        run(str(tmp_path / "none.csv"))
    strange = tmp_path / "stats.xlsx"
    strange.write_text("")
    with pytest.raises(ArgumentError, match=r"\.csv or \.parquet"):
        run(str(strange))


def test_planners_are_listed_with_one_line_each() -> None:
    listing = json.loads(CliRunner().invoke(app, ["planners", "--json"]).output)
    assert [p["name"] for p in listing] == list(PLANNERS)
    expected = {
        "scan",
        "redist",
        "readj",
        "llfd",
        "mintable",
        "minmig",
        "mixed",
        "mixedbf",
        "simple",
        "smalops",
        "hash",
        "consistent",
        "keep",
    }
    assert expected <= set(PLANNERS)
    assert "mixed" in CliRunner().invoke(app, ["planners"]).output
