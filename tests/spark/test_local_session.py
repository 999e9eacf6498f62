from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unskew.errors import SessionError
from unskew.spark import check_session, session
from unskew.spark.check import problems
from unskew.spark.local_session import DEFAULTS

pytestmark = pytest.mark.spark

START_AND_ASK = """
import os
from unskew.spark.internals import is_stopped
from unskew.spark.local_session import SHORT_RUN, session
from unskew.spark.trial import ask_a_worker
spark = session("local[1]", SHORT_RUN)
print(ask_a_worker(spark), spark.sparkContext.getConf().get("spark.driver.host"), os.environ["SPARK_HOME"])
running = is_stopped(spark)
spark.stop()
print(running, is_stopped(spark))
"""


@pytest.mark.slow
def test_starts_in_silence_whatever_the_environment_says(tmp_path):
    foreign = {"SPARK_HOME": str(tmp_path), "SPARK_CONF_DIR": str(tmp_path), "PYSPARK_PYTHON": "/nowhere/python"}
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.host nowhere.invalid\n")
    done = subprocess.run(
        [sys.executable, "-c", START_AND_ASK],
        env={**os.environ, **foreign},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.split() == [sys.executable, sys.version.split()[0], "127.0.0.1", str(tmp_path), "False", "True"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spark-defaults.conf"]


def test_says_what_to_install_without_java(tmp_path):
    code = "from unskew.spark import session\nfrom unskew import java\njava.USUAL_PLACES = ()\nsession()"
    environment = {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "SessionError: no Java that Spark can run on was found. Hint: install Java 17" in done.stderr


def test_has_the_defaults(spark):
    for name, value in DEFAULTS.items():
        assert spark.conf.get(name) == value


def test_gives_the_running_session_again(spark):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    again = session(config={"spark.sql.shuffle.partitions": "7"})
    assert again is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
    spark.conf.set("spark.sql.shuffle.partitions", before)


def test_refuses_what_a_running_session_cannot_change(spark):
    with pytest.raises(SessionError, match=r"spark\.driver\.memory cannot be changed"):
        session(config={"spark.driver.memory": "123m"})
    with pytest.raises(SessionError, match="is running already, got 'local\\[77\\]'"):
        session("local[77]")


def test_a_good_session_passes(spark):
    assert problems(spark) == []
    check_session(spark)


def test_packages_that_do_not_fit_are_named(spark, monkeypatch):
    from unskew import packages

    real = packages.installed_version
    installed = {"pandas": "3.0.1", "pyarrow": None}
    monkeypatch.setattr(packages, "installed_version", lambda name: installed.get(name, real(name)))
    found = {problem.what: problem for problem in problems(spark)}
    assert set(found) == {"pandas 3.0.1 does not fit", "pyarrow is not installed"}
    assert found["pandas 3.0.1 does not fit"].remedy == 'pip install "pandas<3,>=2.2"'
    with pytest.raises(SessionError, match=r"(?s)pandas 3\.0\.1 does not fit; pyarrow is not installed.*pip install"):
        check_session(spark)


def test_another_spark_is_refused(spark, monkeypatch):
    monkeypatch.setattr(type(spark), "version", property(lambda _: "3.5.4"))
    with pytest.raises(SessionError, match=r"Spark is 3\.5\.4, not 4\.0 to 4\.3"):
        check_session(spark)


@pytest.mark.parametrize("other", [None, "local[2]", Path()])
def test_what_is_no_session_is_refused(other):
    with pytest.raises(SessionError, match="this is not a Spark session"):
        check_session(other)


def test_a_stopped_session_is_refused(spark, monkeypatch):
    monkeypatch.setattr(spark.sparkContext, "_jsc", None)
    with pytest.raises(SessionError, match="stopped"):
        check_session(spark)
