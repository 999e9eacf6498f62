"""The wheel and the source distribution, installed where nothing else is, at both ends of the versions we allow."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent
OF_THE_LAB = {"matplotlib", "scipy", "scikit-learn"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a wheel and a source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    return folder


def wheel(built: Path) -> Path:
    return next(built.glob("*.whl"))


def test_a_wheel_and_a_source_distribution(built):
    assert sorted(path.suffix for path in built.iterdir()) == [".gz", ".whl"]
    with ZipFile(wheel(built)) as files:
        assert {"unskew/py.typed", "unskew_lab/py.typed", "unskew/spark/log4j2.properties"} <= set(files.namelist())
        assert {"unskew/metrics/grafana.json", "unskew/metrics/alerts.yml"} <= set(files.namelist())
        assert not [name for name in files.namelist() if name.startswith("tests")]


@pytest.fixture(scope="module", params=["newest", "lowest"])
def python(request: pytest.FixtureRequest, built: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the interpreter of an environment that has the wheel and what it asks for, and nothing else."""
    home = tmp_path_factory.mktemp(request.param)
    venv.create(home, with_pip=True)
    pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    if request.param == "lowest":
        build = ROOT / "requirements" / "build.txt"
        subprocess.run([*pip, "--require-hashes", "-r", str(build)], check=True)
        locked = ["--no-build-isolation", "--require-hashes", "-r", str(ROOT / "requirements" / "lowest.txt")]
        subprocess.run([*pip, *locked], check=True)
        subprocess.run([*pip, "--no-deps", str(wheel(built))], check=True)
    else:
        subprocess.run([*pip, str(wheel(built))], check=True)
    return pip[0]


def run(python: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    return subprocess.run([python, *arguments], cwd=cwd, env=clean, capture_output=True, text=True, check=False)


def test_nothing_of_the_lab_is_installed(python, tmp_path):
    done = run(python, "-m", "pip", "list", "--format=freeze", cwd=tmp_path)
    names = {line.split("==")[0].lower() for line in done.stdout.split()}
    assert "pyspark" in names
    assert names & OF_THE_LAB == set()
    assert run(python, "-m", "pip", "check", cwd=tmp_path).returncode == 0


def test_a_first_job_runs(python, tmp_path):
    done = run(python, str(ROOT / "tests" / "smoke.py"), str(tmp_path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_command_line_answers(python, tmp_path):
    done = run(python, "-m", "unskew", "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "unskew run" in done.stdout or "run" in done.stdout.split()
    missing = run(python, "-m", "unskew", "demo", "--batches", "2", cwd=tmp_path)
    assert missing.returncode != 0
    assert "pip install 'unskew[lab]'" in missing.stderr + missing.stdout
