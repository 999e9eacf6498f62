"""PyFlink: keyed state in a process function, in an interpreter of its own.

Its requirements (older numpy, pandas and pyarrow) do not go together with ours, so it is not an extra. Where another
interpreter has it, ``UNSKEW_FLINK_PYTHON`` says which. The time includes starting Flink.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from unskew_lab.bench.peers.peer import Peer, Totals

VARIABLE = "UNSKEW_FLINK_PYTHON"


def running_sums(folder: Path) -> Totals:
    """Run the program beside this file, and read what it has written."""
    with tempfile.TemporaryDirectory(prefix="unskew-bench-") as home:
        out = Path(home) / "totals.json"
        program = Path(__file__).with_name("flink_program.py")
        subprocess.run([_interpreter(), str(program), str(folder), str(out)], check=True, capture_output=True)
        return {key: (n, total) for key, (n, total) in json.loads(out.read_text()).items()}


def missing() -> str | None:
    """Say that there is no interpreter with PyFlink, if so."""
    if importlib.util.find_spec("pyflink") or os.environ.get(VARIABLE):
        return None
    return (
        f"PyFlink does not go together with our versions; {VARIABLE}=/path/to/python names an interpreter that has it."
    )


def _interpreter() -> str:
    return os.environ.get(VARIABLE) or sys.executable


FLINK = Peer("PyFlink keyed state, with its start", running_sums, missing)
