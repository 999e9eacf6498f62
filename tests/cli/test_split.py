from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from unskew.cli import app
from unskew.errors import ArgumentError, ColumnError, FormatError, KeyTypeError
from unskew.splitters import SPLITTERS


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["split", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [f"word{rank}" for rank in np.random.default_rng(0).zipf(1.3, 20_000).tolist()]


@pytest.fixture(scope="module")
def text(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("split") / "words.txt"
    path.write_text("\n".join(words) + "\n")
    return str(path)


@pytest.mark.parametrize("name", list(SPLITTERS))
def test_every_scheme_counts_every_tuple(name: str, text: str, words: list[str]) -> None:
    answer = json.loads(run(text, "--scheme", name, "--workers", "6", "--sources", "3", "--json"))
    assert sum(answer["loads"]) == answer["tuples"] == len(words)
    assert answer["distinct_keys"] == len(set(words))
    assert answer["top_share"] == pytest.approx(max(Counter(words).values()) / len(words))
    mean = len(words) / 6
    assert answer["imbalance_tuples"] == pytest.approx(max(answer["loads"]) - mean)
    assert answer["imbalance_at_end"] == pytest.approx((max(answer["loads"]) - mean) / len(words))
    assert answer["max_over_mean"] == pytest.approx(max(answer["loads"]) / mean)
    assert answer["imbalance_tuples"] <= answer["bound_by_sources_tuples"] + 1e-6
    assert sum(answer["counters_per_worker"]) == answer["counters"]
    assert answer["memory_relative_to_key_grouping"] == pytest.approx(answer["counters"] / len(set(words)))
    whole = name in ("key", "static-potc", "on-greedy", "off-greedy")
    assert (answer["most_channels_of_a_key"] == 1) == whole


def test_a_parquet_column_is_the_same_stream(text: str, words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "words.parquet"
    pa.parquet.write_table(pa.table({"n": np.arange(len(words)), "word": pa.array(words).dictionary_encode()}), path)
    from_parquet = json.loads(run(str(path), "--column", "word", "--json"))
    from_text = json.loads(run(text, "--json"))
    assert {**from_parquet, "file": ""} == {**from_text, "file": ""}


def test_windows_line_ends_and_lines_without_text(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_bytes(b"a\r\nb\r\n\r\na\r\n")
    assert json.loads(run(str(path), "--json"))["distinct_keys"] == 3
    path.write_bytes(b"a\nb\n\na")
    assert json.loads(run(str(path), "--json"))["tuples"] == 4


def test_an_oracle_is_asked_where_sources_only_guess(text: str) -> None:
    guessed = json.loads(run(text, "--estimate", "local", "--json"))
    equal = guessed["agreement_with_oracle"]
    assert 0.3 < equal < 1
    assert guessed["jaccard_with_oracle"] == pytest.approx(equal / (2 - equal))
    assert json.loads(run(text, "--estimate", "global", "--json"))["agreement_with_oracle"] is None
    probed = json.loads(run(text, "--estimate", "probed", "--probe-tuples", "1", "--json"))
    assert probed["agreement_with_oracle"] == 1  # who asks before every tuple knows all
    assert json.loads(run(text, "--scheme", "shuffle", "--json"))["agreement_with_oracle"] is None


def test_people_see_bars_figures_and_advice(text: str) -> None:
    output = " ".join(run(text, "--scheme", "pkg", "--workers", "20", "--distinct").split())
    assert "tuples per channel mean 1,000" in output
    assert "times those of key grouping; a key on up to 2 channels" in output
    assert "The hottest key is too much for 2 of 20 channels" in output
    assert "Try --scheme d-choices" in output
    assert "too much" not in run(text, "--scheme", "d-choices", "--workers", "20")
    assert "the 32 fullest of 100" in run(text, "--workers", "100")


def test_schemes_are_listed() -> None:
    assert [scheme["name"] for scheme in json.loads(run("--list", "--json"))] == list(SPLITTERS)
    assert "partial key grouping" in run("--list")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--scheme", "pgk"], ArgumentError, "did you mean 'pkg'"),
        (["--scheme", "pkg", "--choices", "3"], ArgumentError, r"two choices, got 3 \(in --choices\).*greedy-d"),
        (["--scheme", "shuffle", "--choices", "3"], ArgumentError, "has no parameter 'choices'"),
        (["--scheme", "on-greedy", "--estimate", "local"], ArgumentError, "all sources have to agree"),
        (["--workers", "0"], ArgumentError, "workers, got 0"),
        (["--sources", "0"], ArgumentError, "at least one source, got 0"),
        (["--feed", "turns"], ArgumentError, "one of round-robin, hash"),
        (["--estimate", "none"], ArgumentError, "one of global, local, probed"),
        (["--column", "word"], ArgumentError, r"a text file has no columns, got 'word' \(in --column\)"),
        (["--seed", "-1"], ArgumentError, "must be a whole number, at least 0, got -1 .in seed"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], error: type[Exception], message: str, text: str) -> None:
    with pytest.raises(error, match=message):
        run(text, *arguments)


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no keys are named"):
        run()
    with pytest.raises(ArgumentError, match="no such file"):
        run(str(tmp_path / "none.txt"))
    path = tmp_path / "keys.parquet"
    path.write_text("not parquet")
    with pytest.raises(FormatError, match="cannot be read"):
        run(str(path))
    pa.parquet.write_table(pa.table({"kye": ["a"], "when": pa.array([{"a": 1}])}), path)
    with pytest.raises(ColumnError, match=r"got 'key'\. Hint: did you mean 'kye'"):
        run(str(path))
    pa.parquet.write_table(pa.table({"key": pa.array([], pa.string())}), path)
    with pytest.raises(FormatError, match="there are no rows"):
        run(str(path))
    pa.parquet.write_table(pa.table({"key": pa.array([1], pa.uint64())}), path)
    with pytest.raises(KeyTypeError, match="column 'key'"):
        run(str(path))
    binary = tmp_path / "keys.txt"
    binary.write_bytes(b"ab\xff")
    with pytest.raises(FormatError, match="byte 2 is not UTF-8"):
        run(str(binary))
