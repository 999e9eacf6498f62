"""Run the core suite on every version of Spark and Python that there is here: ``make test-versions``."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from versions.environments import HOME, MATRIX, ROOT, Version
from versions.page import Result, write_page
from versions.suite import CORE

LEFT_OUT = ("SPARK_", "PYSPARK_", "PYTHON", "HADOOP_")


def run(version: Version, more: list[str]) -> Result | None:
    """Return what the suite gave; None if this machine has no such Python."""
    interpreter = version.interpreter()
    if interpreter is None:
        print(f"{version}: skipped, there is no Python {version.python} here", flush=True)
        return None
    print(f"{version}: setting up {version.home}", flush=True)
    python = version.make(interpreter)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [python, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow", f"--junitxml={report}"]
        own = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
        subprocess.run([*command, *CORE, *more], cwd=ROOT, env=own, check=False)
        return Result.read(report, *version.exact(python))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", nargs="+", default=[], metavar="4.0/3.11", help="Spark and Python of some of them")
    options.add_argument("--page", help="write the table into this page")
    given, more = options.parse_known_args()
    wanted = [version for version in MATRIX if not given.only or str(version) in given.only]
    if not wanted:
        options.error(f"one or more of {', '.join(map(str, MATRIX))}")
    HOME.mkdir(exist_ok=True)
    results = []
    for version in wanted:
        result = run(version, more)
        if result is not None:
            results.append(result)
            print(f"{version}: {result.passed} passed, {result.failed} failed, {result.skipped} skipped", flush=True)
            if given.page:
                write_page(Path(given.page), [result])
    return int(not results or any(result.failed or not result.passed for result in results))


if __name__ == "__main__":
    sys.exit(main())
