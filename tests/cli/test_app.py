from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys

import pytest
from rich.text import Text
from typer.testing import CliRunner

from unskew import __version__
from unskew.cli import COMMANDS, app, main
from unskew_lab.bench import Benchmark, Row, benchmarks

runner = CliRunner()
registered = [command.name for command in app.registered_commands]


def run_main(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    printed = capsys.readouterr()
    return stopped.value.code, printed.out, printed.err


@pytest.fixture
def example_benchmark():
    class Example(Benchmark):
        name = "example-of-the-tests"
        summary = "counts to ten"

        def run(self, quick):
            return [Row("count", "unskew", 10.0 if quick else 20.0, "numbers", ratio=2.0, target=15.0)]

    yield Example
    benchmarks._members.pop("example-of-the-tests")


def test_python_m_unskew_is_the_command_line():
    done = subprocess.run([sys.executable, "-m", "unskew", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"unskew {__version__}\n"


def test_help_shows_examples_and_every_command():
    shown = runner.invoke(app, ["--help"]).stdout
    assert "Examples" in shown
    assert "unskew demo" in shown
    for name in registered:
        assert f" {name} " in shown


@pytest.mark.parametrize("name", registered)
def test_every_command_has_examples_and_json(name):
    result = runner.invoke(app, [name, "--help"], env={"COLUMNS": "120"})
    assert result.exit_code == 0
    assert "Examples" in result.stdout
    assert f"unskew {name}" in result.stdout.partition("Examples")[2]
    assert "--json" in result.stdout


def product_commands():
    """Give every command of the product with its help, those of groups too."""
    grouped = [
        ("kafka", command) for group in app.registered_groups for command in group.typer_instance.registered_commands
    ]
    for prefix, command in [("", command) for command in app.registered_commands] + grouped:
        if command.callback.__module__.startswith("unskew.cli"):
            name = command.name or command.callback.__name__
            yield pytest.param([*prefix.split(), name], command.callback.__doc__, id=f"{prefix}{name}")


@pytest.mark.parametrize(("command", "text"), [*product_commands()])
def test_help_fits_80_columns_and_breaks_between_sentences(command, text):
    shown = runner.invoke(app, [*command, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).stdout.splitlines()
    assert max(map(len, shown)) <= 80
    lines = Text.from_markup(inspect.cleandoc(text)).plain.splitlines()[1:]
    assert {line.rstrip() for line in lines} <= {line[1:].rstrip() for line in shown}, "no line is wrapped"
    prose = lines[: lines.index("Examples")]
    assert all(line.endswith((".", ":")) for line in prose if line)


def test_a_misspelt_command_is_answered_with_the_nearest_one(capsys):
    assert "Did you mean 'workload'?" in run_main(capsys, "wrkload")[2]
    assert "Did you mean 'workload'?" in json.loads(run_main(capsys, "wrkload", "--json")[2])["what"]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("run", "--source", "parqet:in", "--sink", "console"), "did you mean parquet:DIR"),
        (("run", "--source", "csv:in", "--sink", "consle"), "did you mean console"),
        (("run", "--source", "csv:in", "--sink", "delt:out"), "did you mean delta:DIR"),
        (("run", "--source", "workload:zipff", "--batches", "1", "--sink", "console"), "did you mean 'zipf'"),
        (("run", "--source", "csv:in", "--sink", "console", "--planner", "mixd"), "did you mean 'mixed'"),
    ],
)
def test_a_misspelt_word_of_a_job_is_answered_before_spark_starts(capsys, monkeypatch, arguments, hint):
    monkeypatch.setattr("unskew.spark.local_session.session", None)
    code, _, err = run_main(capsys, *arguments, "--key", "key", "--aggregate", "count")
    assert (code, hint in err) == (2, True), err


def test_commands_of_the_table_that_exist_are_registered():
    assert {"demo", "doctor", "bench"} <= set(registered) <= set(COMMANDS)


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom unskew.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'pyspark', 'numba', 'matplotlib', 'pandas', 'pyarrow', 'scipy', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_error_is_one_line_without_traceback(capsys):
    code, out, err = run_main(capsys, "bench", "nothing-like-it")
    assert (code, out) == (2, "")
    assert err.startswith("ArgumentError: there is no benchmark of that name, got 'nothing-like-it'")
    assert len(err.splitlines()) == 1


def test_an_error_is_an_object_with_json(capsys):
    code, out, err = run_main(capsys, "bench", "nothing-like-it", "--json")
    assert (code, out) == (2, "")
    error = json.loads(err)
    assert set(error) == {"error", "what", "where", "got", "hint"}
    assert (error["error"], error["got"]) == ("ArgumentError", "nothing-like-it")


def test_a_wrong_option_is_an_object_with_json_too(capsys):
    code, out, err = run_main(capsys, "bench", "--wrong", "--json")
    assert (code, out) == (2, "")
    assert json.loads(err)["error"] == "ArgumentError"
    assert "--wrong" in json.loads(err)["what"]


def test_a_command_of_the_laboratory_says_what_to_install(capsys, monkeypatch, tmp_path, example_benchmark):
    kept = tmp_path / "example.json"
    run_main(capsys, "bench", "example-of-the-tests", "--out", str(kept))
    for name in [name for name in sys.modules if name.startswith(("unskew_lab.report", "matplotlib"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as if it were not there
    code, _, err = run_main(capsys, "report", str(kept), "--out", str(tmp_path / "page.html"))
    assert (code, "matplotlib" in err, "pip install 'unskew[lab]'" in err) == (2, True, True)


def test_debug_shows_the_traceback():
    command = [sys.executable, "-m", "unskew", "bench", "nothing-like-it"]
    for arguments, extra in ((["--debug"], {}), ([], {"UNSKEW_DEBUG": "1"})):
        done = subprocess.run(
            [*command[:3], *arguments, *command[3:]],
            env={**os.environ, **extra},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert "Traceback" in done.stderr


def test_bench_lists(example_benchmark):
    listed = json.loads(runner.invoke(app, ["bench", "--list", "--json"]).stdout)
    assert {"name": "example-of-the-tests", "summary": "counts to ten"} in listed
    assert "counts to ten" in runner.invoke(app, ["bench", "--list"]).stdout


def test_bench_prints_one_object_and_writes_it(example_benchmark, tmp_path):
    out = tmp_path / "new" / "report.json"
    result = runner.invoke(app, ["bench", "example-of-the-tests", "--quick", "--json", "--out", str(out)])
    printed = json.loads(result.stdout)
    assert printed["rows"][0]["value"] == 10.0
    assert printed["rows"][0]["met"] is False
    kept = json.loads(out.read_text())
    assert {name: kept[name] for name in ("benchmark", "commit", "machine")} == {
        name: printed[name] for name in ("benchmark", "commit", "machine")
    }
    assert printed["rows"][0].items() <= kept["rows"][0].items()
    assert kept["quick"] is True


def test_bench_prints_a_table_and_keeps_the_result_by_commit(example_benchmark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = runner.invoke(app, ["bench", "example-of-the-tests", "--page", "page.html"]).stdout
    assert "20 numbers" in shown
    assert "yes" in shown
    [kept] = (tmp_path / "artifacts" / "bench").rglob("*.json")
    assert kept.name == "example-of-the-tests.json"
    assert kept.parent.name == json.loads(kept.read_text())["commit"]
    assert f"unskew report {kept.relative_to(tmp_path)}" in shown
    assert "count" in (tmp_path / "page.html").read_text()


def test_bench_of_everything_keeps_results_and_writes_pages(example_benchmark, tmp_path, monkeypatch):
    from unskew_lab.bench import suite

    def pretended(names, quick):
        assert quick
        from unskew_lab.bench import store

        for name in names:
            yield store.measure(example_benchmark(), quick) if name in benchmarks else None

    monkeypatch.setattr(suite, "run_each", pretended)
    pages = [tmp_path / "page.md", tmp_path / "page.html"]
    arguments = ["bench", "all", "--quick", "--only", "example-of-the-tests", "--out", str(tmp_path / "kept")]
    result = runner.invoke(app, [*arguments, *(f"--page={page}" for page in pages)])
    assert result.exit_code == 0
    assert "0 of 1 targets met" in result.stdout
    assert (tmp_path / "kept" / "example-of-the-tests-quick.json").exists()
    assert all("example-of-the-tests" in page.read_text() for page in pages)


def test_bench_without_a_name_says_what_to_do(capsys):
    code, _, err = run_main(capsys, "bench")
    assert code == 2
    assert "unskew bench --list" in err
