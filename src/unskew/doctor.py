"""Check what is installed, and whether it fits together."""

from __future__ import annotations

import importlib
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unskew import __version__
from unskew.errors import UnskewError
from unskew.java import HOW_TO_INSTALL, all_javas, find_java
from unskew.kernel_cache import kernel_cache
from unskew.machine import cores, cpu_model, memory_bytes
from unskew.packages import Package, needed_packages

OLDEST_PYTHON = (3, 11)
LEAST_MEMORY_GIGABYTES = 3
LEAST_DISK_GIGABYTES = 2
IMPORT_NAMES = {"protobuf": "google.protobuf"}
FOREIGN = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON", "PYTHONPATH")


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    found: str
    fits: bool | None  # None is for information only
    hint: str | None = None  # what to do if it does not fit


def examine(with_spark: bool = False) -> Iterator[Finding]:
    """Yield the findings one by one; `with_spark` also asks a Python worker, and runs a small balanced query."""
    yield Finding("unskew", f"{__version__}, {Path(__file__).parent}", fits=None)
    yield _python()
    yield _java()
    for package in needed_packages():
        yield _package(package)
    yield _compile_cache()
    yield from _machine()
    yield from _surroundings()
    if with_spark:
        yield from _spark()


def _python() -> Finding:
    fits = sys.version_info >= OLDEST_PYTHON
    hint = None if fits else "unskew needs Python 3.11 or newer"
    return Finding("Python", f"{platform.python_version()}, {sys.executable}", fits, hint)


def _java() -> Finding:
    java = find_java()
    if java is not None:
        return Finding("Java", f"{java.version}, {java.home}", fits=True)
    others = ", ".join(f"{each.version} in {each.home}" for each in all_javas())
    return Finding("Java", f"only {others}" if others else "not found", fits=False, hint=HOW_TO_INSTALL)


def _package(package: Package) -> Finding:
    found = f"{package.installed or 'not installed'} (needs {package.needed})"
    if not package.fits:
        return Finding(package.name, found, fits=False, hint=package.remedy)
    try:
        importlib.import_module(IMPORT_NAMES.get(package.name, package.name))
    except Exception as error:
        return Finding(package.name, f"{found}, cannot be imported: {error}", fits=False, hint="reinstall it")
    return Finding(package.name, found, fits=True)


def _compile_cache() -> Finding:
    folder = kernel_cache()
    try:
        if folder is None:
            raise FileNotFoundError("no folder is writable")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        hint = "set NUMBA_CACHE_DIR to a writable folder, or kernels are compiled at every start"
        return Finding("compile cache", f"{folder}: {error}", fits=False, hint=hint)
    return Finding("compile cache", str(folder), fits=True)


def _machine() -> Iterator[Finding]:
    yield Finding("cores", f"{cores()}, {cpu_model()}", fits=None)
    memory = memory_bytes()
    if memory is not None:
        enough = memory >= LEAST_MEMORY_GIGABYTES << 30
        hint = None if enough else f"Spark and its Python workers need {LEAST_MEMORY_GIGABYTES} GB or more"
        yield Finding("memory", f"{memory / 2**30:.1f} GB", enough, hint)
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    enough = free >= LEAST_DISK_GIGABYTES << 30
    hint = None if enough else "Spark spills and keeps state there: free some space, or set TMPDIR to a larger disk"
    yield Finding("free disk", f"{free / 2**30:.1f} GB in {folder}", enough, hint)


def _surroundings() -> Iterator[Finding]:
    for name in FOREIGN:
        if os.environ.get(name):
            yield Finding(
                name, os.environ[name], fits=None, hint="set in the environment; it may change what Spark does"
            )


def _spark() -> Iterator[Finding]:
    from unskew.spark import trial
    from unskew.spark.local_session import SHORT_RUN, session

    start = time.perf_counter()
    ours = not trial.is_running()
    try:
        spark = session(config=SHORT_RUN) if ours else session()
    except UnskewError as error:
        yield Finding("Spark session", error.what, fits=False, hint=error.hint)
        return
    yield Finding("Spark session", f"{spark.version}, in {time.perf_counter() - start:.1f} s", fits=True)
    try:
        yield _try("Python workers", lambda: trial.ask_a_worker(spark))
        yield _try("a balanced stream", lambda: _count_balanced(spark))
    finally:
        if ours:
            spark.stop()


def _count_balanced(spark: Any) -> dict[str, int]:
    from unskew.spark.balance import balance

    with tempfile.TemporaryDirectory(prefix="unskew-doctor-") as folder:
        source = Path(folder) / "source"
        source.mkdir()
        (source / "rows.json").write_text("\n".join(json.dumps({"key": key}) for key in "aba"))
        counts: dict[str, int] = {}
        query = (
            balance(spark.readStream.schema("key string").json(str(source)), "key", channels=2)
            .aggregate(n="count")
            .writeStream.option("checkpointLocation", str(Path(folder) / "checkpoint"))
            .foreachBatch(lambda rows, _: counts.update({row["key"]: row["n"] for row in rows.collect()}))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    return dict(sorted(counts.items()))


def _try(name: str, query: Callable[[], object]) -> Finding:
    start = time.perf_counter()
    try:
        answer = query()
    except Exception as error:
        first_line = str(error).strip().partition("\n")[0]
        return Finding(name, first_line, fits=False, hint="the query is in unskew/doctor.py: run it yourself")
    return Finding(name, f"{answer}, in {time.perf_counter() - start:.1f} s", fits=True)
