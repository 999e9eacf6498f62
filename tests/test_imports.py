"""Imports point one way. Read from the source, so that imports inside functions count too."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import unskew

SOURCE = Path(unskew.__file__).parent

CORE = {
    "errors",
    "codec",
    "codec_kinds",
    "registry",
    "kernel_cache",
    "private",
    "hashing",
    "routing",
    "sketches",
    "load",
    "planners",
    "splitters",
    "state",
    "operators",
    "runtime",
}
HELPERS = {"java", "packages", "machine", "versions"}  # look at the machine, know nothing of streams
ABOVE = {
    "spark",
    "kafka",
    "workloads",
    "bars",
    "doctor",
    "testing",
    "jobs",
    "metrics",
    "watch",
    "advice",
    "cli",
}
USERS_OF_PYSPARK = (
    "unskew.versions.arrow",
    "unskew.versions.hints",
    "unskew.versions.shuffle",
    "unskew.versions.sources",
    "unskew.spark",
    "unskew.kafka.spark_gateway",
    "unskew.kafka.spark_rows",
    "unskew.kafka.spark_reader",
    "unskew.kafka.spark_kafka",
    "unskew.workloads.spark_source",
    "unskew.jobs",
    "unskew.testing.tws_tester",
    "unskew.advice.checkpoint",
    "unskew.advice.command",
    "unskew.advice.counting",
    "unskew.advice.sources",
)


def module_name(path: Path) -> str:
    parts = ("unskew", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def imports_of(path: Path) -> set[str]:
    """Return the full names of everything that a file imports, anywhere in it."""
    package = module_name(path).split(".")
    return imports_in(path.read_text(encoding="utf-8"), package if path.name == "__init__.py" else package[:-1])


def imports_in(text: str, package: list[str]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            found |= {f"{origin}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found |= {part.value for part in node.args if isinstance(part, ast.Constant)}
    return found


def part(name: str) -> str | None:
    """Return the folder or file below ``unskew`` that a name belongs to."""
    parts = name.split(".")
    return parts[1] if parts[0] == "unskew" and len(parts) > 1 else None


FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {module_name(path): path for path in FILES}


def test_every_part_has_its_place():
    parts = {part(name) for name in MODULES} - {None, "__main__"}
    assert parts <= CORE | HELPERS | ABOVE, "say in this file which way the imports of the new part point"


@pytest.mark.parametrize("name", [name for name in MODULES if part(name) in CORE])
def test_the_core_imports_nothing_above_it(name):
    above = {found for found in imports_of(MODULES[name]) if part(found) in ABOVE}
    assert above == set()


DIFFERENT = ("pyspark.sql.conversion", "pyspark.sql.pandas", "pyspark.sql.streaming.datasource", "repartitionById")
"""What is not the same in all versions of Spark that unskew runs on."""


@pytest.mark.parametrize("name", MODULES)
def test_what_differs_between_versions_of_spark_is_in_one_place(name):
    """`unskew.spark.anchors` runs from the version on that has what it needs."""
    text = MODULES[name].read_text(encoding="utf-8")
    if part(name) != "versions" and name != "unskew.spark.anchors":
        assert [each for each in DIFFERENT if f"{each}." in text or f"{each} " in text or f".{each}(" in text] == []


STAGES = ("state", "operators", "runtime")
"""Folders of the core that build on one another, the lowest first; all others of the core lie below them."""


@pytest.mark.parametrize("name", [name for name in MODULES if part(name) in CORE])
def test_the_stages_of_the_core_build_on_one_another(name):
    level = {stage: place for place, stage in enumerate(STAGES)}
    mine = level.get(part(name), -1)
    above = {found for found in imports_of(MODULES[name]) if level.get(part(found), -1) > mine}
    assert above == set()


@pytest.mark.parametrize("name", [name for name in MODULES if part(name) in HELPERS])
def test_helpers_import_neither_core_nor_anything_above(name):
    wrong = {found for found in imports_of(MODULES[name]) if part(found) in (CORE - {"errors"}) | ABOVE}
    assert wrong == set()


def test_the_folders_of_the_product_have_an_order():
    """No folder imports, through whatever others, one that imports it."""
    below = {
        part(name): {
            part(found) for other in MODULES if part(other) == part(name) for found in imports_of(MODULES[other])
        }
        for name in MODULES
    }
    left = {mine: (found & set(below)) - {mine, None} for mine, found in below.items() if mine is not None}
    while left:
        lowest = {mine for mine, found in left.items() if not found & set(left)}
        assert lowest, f"these import each other in a circle: {sorted(left)}"
        left = {mine: found for mine, found in left.items() if mine not in lowest}


def test_the_product_does_not_import_the_laboratory():
    users = {name for name, path in MODULES.items() if any("unskew_lab" in found for found in imports_of(path))}
    assert users == set()


def test_pyspark_is_imported_where_it_may():
    users = {
        name for name, path in MODULES.items() if any(found.split(".")[0] == "pyspark" for found in imports_of(path))
    }
    assert "unskew.spark.local_session" in users
    strangers = {name for name in users if not f"{name}.".startswith(tuple(f"{user}." for user in USERS_OF_PYSPARK))}
    assert strangers == set()


def test_nothing_imports_the_tests():
    wrong = {
        name for name, path in MODULES.items() if any(found.split(".")[0] == "tests" for found in imports_of(path))
    }
    assert wrong == set()


def test_importing_unskew_starts_neither_pyspark_nor_what_draws():
    heavy = {"pyspark", "matplotlib", "bokeh", "tornado", "opentelemetry"}
    code = f"import sys, unskew; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_reader_of_imports_sees_all_kinds():
    text = """
def lazily():
    import pyspark.sql
    from unskew.spark import session
    from unskew import kafka
    from ..jobs import view
    from . import base
    importlib.import_module("unskew.cli")
"""
    assert imports_in(text, ["unskew", "load"]) == {
        "pyspark.sql",
        "unskew.spark.session",
        "unskew.kafka",
        "unskew.jobs.view",
        "unskew.load.base",
        "unskew.cli",
    }
