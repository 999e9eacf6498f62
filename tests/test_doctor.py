from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from unskew import doctor, packages
from unskew.cli import app
from unskew.java import find_java

runner = CliRunner()


def by_name(**options):
    return {finding.name: finding for finding in doctor.examine(**options)}


def test_this_environment_fits():
    findings = by_name()
    assert {"Python", "Java", "pyspark", "pyarrow", "pandas", "numba", "protobuf", "compile cache"} <= set(findings)
    assert all(finding.fits is not False for finding in findings.values())
    result = runner.invoke(app, ["doctor"])
    assert result.exit_code == 0
    assert "Everything fits." in result.stdout


def test_json_holds_all_findings():
    result = runner.invoke(app, ["doctor", "--json"])
    printed = json.loads(result.stdout)
    assert printed["fits"] is True
    assert {"name", "found", "fits", "hint"} == set(printed["findings"][0])
    assert str(find_java().home) in next(each["found"] for each in printed["findings"] if each["name"] == "Java")


def test_a_package_that_does_not_fit_turns_red_with_the_command_to_run(monkeypatch):
    real = packages.installed_version
    installed = {"pandas": "3.0.1", "pyarrow": None}
    monkeypatch.setattr(packages, "installed_version", lambda name: installed.get(name, real(name)))
    findings = by_name()
    assert findings["pandas"].fits is False
    assert findings["pandas"].hint == 'pip install "pandas<3,>=2.2"'
    assert findings["pyarrow"].found.startswith("not installed")
    result = runner.invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "Something does not fit" in result.stdout
    assert json.loads(runner.invoke(app, ["doctor", "--json"]).stdout)["fits"] is False


def test_a_package_that_cannot_be_imported_turns_red(monkeypatch):
    real = doctor.importlib.import_module

    def broken(name):
        if name == "google.protobuf":
            raise ImportError("libprotobuf.so is missing")
        return real(name)

    monkeypatch.setattr(doctor.importlib, "import_module", broken)
    assert by_name()["protobuf"].fits is False
    assert "libprotobuf.so is missing" in by_name()["protobuf"].found


def test_no_java_is_said_with_what_to_install(monkeypatch):
    monkeypatch.setattr(doctor, "find_java", lambda: None)
    monkeypatch.setattr(doctor, "all_javas", lambda: iter(()))
    finding = by_name()["Java"]
    assert (finding.fits, finding.found) == (False, "not found")
    assert "openjdk-17-jre-headless" in finding.hint


def test_a_cache_that_cannot_be_written_turns_red(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "below"))
    finding = by_name()["compile cache"]
    assert finding.fits is False
    assert "NUMBA_CACHE_DIR" in finding.hint


def test_another_spark_in_the_environment_is_mentioned(monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark-3")
    assert by_name()["SPARK_HOME"].found == "/opt/spark-3"
    assert by_name()["SPARK_HOME"].fits is None


@pytest.mark.spark
def test_the_deep_check_runs_two_queries_and_leaves_a_running_session_alone(spark):
    findings = by_name(with_spark=True)
    assert findings["Spark session"].fits
    assert findings["Python workers"].fits
    assert findings["a balanced stream"].found.startswith("{'a': 2, 'b': 1}")
    assert spark.range(3).count() == 3
