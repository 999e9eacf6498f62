"""What the repository promises to newcomers, held against its files."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import unskew
from unskew import errors
from unskew.cli import app
from unskew.planners import PLANNERS
from unskew.splitters import SPLITTERS
from unskew.workloads import WORKLOADS

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = "".join(path.read_text() for path in sorted((ROOT / "requirements").rglob("*.txt")))
TARGETS = ("demo", "test", "check", "test-all", "bench", "help")
PUBLIC = (
    "unskew",
    "unskew.spark",
    "unskew.operators",
    "unskew.planners",
    "unskew.splitters",
    "unskew.routing",
    "unskew.hashing",
    "unskew.sketches",
    "unskew.load",
    "unskew.state",
    "unskew.kafka",
    "unskew.workloads",
    "unskew.testing",
)
BEHIND_BALANCE = {
    "unskew.spark.balanced.Balanced",
    "unskew.spark.stage.Stage",
    "unskew.spark.writer.BalancedWriter",
    "unskew.spark.query.BalancedQuery",
    "unskew.spark.pair.BalancedPair",
    "unskew.spark.batch.BatchStage",
    "unskew.spark.per_key.Rows",
    "unskew.runtime.figures.BatchFigures",
}
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("name", ["requirements", "pyproject.toml", "Makefile", ".ci/run", "scripts"])
def test_no_address_of_a_registry(name):
    path = ROOT / name
    for file in filter(Path.is_file, sorted(path.iterdir()) if path.is_dir() else [path]):
        assert "://" not in file.read_text()


def test_the_first_two_commands_of_the_readme():
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    assert commands[:2] == ["make demo", "make test"]


def test_make_help_lists_the_targets():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = re.findall(r"^  make (\S+)", done.stdout, flags=re.MULTILINE)
    assert set(TARGETS) <= set(listed)
    assert subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout == done.stdout


def test_make_hides_another_spark_from_ours(tmp_path):
    probe = tmp_path / "Makefile"
    probe.write_text(f"include {ROOT}/Makefile\nprobe:\n\t@env\n")
    foreign = dict.fromkeys(("SPARK_HOME", "SPARK_CONF_DIR", "PYTHONPATH", "PYSPARK_PYTHON"), "/elsewhere")
    done = subprocess.run(
        ["make", "-f", str(probe), "probe"],
        cwd=tmp_path,
        env={**os.environ, **foreign, "KEPT": "/elsewhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line for line in done.stdout.splitlines() if line.endswith("=/elsewhere")] == ["KEPT=/elsewhere"]


def test_ci_runs_the_tests():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert re.search(r"^make test$", script.read_text(), flags=re.MULTILINE)


def locked(text: str = LOCK) -> list[tuple[str, str]]:
    """Return names and versions; a name stands twice where interpreters or platforms differ."""
    return re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, flags=re.MULTILINE)


def test_everything_needed_is_locked_in_a_version_that_fits():
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    ours = [*project["dependencies"], *extras["flights"], *extras["lab"]]
    newest, lowest, build = (
        locked((ROOT / "requirements" / f"{file}.txt").read_text()) for file in ("lock", "lowest", "build")
    )
    for requirement in map(Requirement, [*ours, *chain.from_iterable(PROJECT["dependency-groups"].values())]):
        known = [*newest, *build, *(lowest if str(requirement) in map(str, map(Requirement, ours)) else [])]
        versions = [version for name, version in known if name == requirement.name]
        assert versions, requirement
        assert all(requirement.specifier.contains(version) for version in versions), requirement


def test_every_locked_version_has_a_hash():
    entries = re.split(r"^(?=\S)", LOCK, flags=re.MULTILINE)[1:]
    assert len(entries) == len(locked()) > 40
    assert all("--hash=sha256:" in entry for entry in entries)


def test_one_version_everywhere():
    assert unskew.__version__ == PROJECT["project"]["version"]
    newest = re.search(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert newest[1].rstrip(",") == unskew.__version__


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    missing = [link for link in links if link and "://" not in link and not (page.parent / link).exists()]
    assert missing == []


def test_every_page_is_in_the_site():
    site = (ROOT / "mkdocs.yml").read_text()
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if page not in site} == set()


def test_every_command_is_in_the_reference():
    reference = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    assert {command.name for command in app.registered_commands if f"`unskew {command.name}`" not in reference} == set()


def test_every_public_name_is_in_the_reference():
    pages = sorted((ROOT / "docs" / "reference" / "api").glob("*.md"))
    entries = [name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), flags=re.MULTILINE)]
    exported = {f"{module}.{name}" for module in PUBLIC for name in importlib.import_module(module).__all__}
    raised = {f"unskew.errors.{name}" for name in vars(errors) if name.endswith("Error")}
    named = {
        f"{cls.__module__}.{cls.__qualname__}"
        for registry in (PLANNERS, SPLITTERS, WORKLOADS)
        for cls in registry.values()
        if cls.__module__.startswith("unskew.")
    }
    assert exported | raised | named | BEHIND_BALANCE <= set(entries)
    assert sorted(set(entries)) == sorted(entries)


def test_every_name_in_the_reference_exists():
    for page in sorted((ROOT / "docs" / "reference" / "api").glob("*.md")):
        for name in re.findall(r"^::: (\S+)$", page.read_text(), flags=re.MULTILINE):
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute), f"{page.name}: {name}"
