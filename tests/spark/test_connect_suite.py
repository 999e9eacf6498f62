"""The tests of Spark Connect, in a process of their own: a Connect session and a classic one do not share one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.spark
@pytest.mark.slow
def test_the_connect_suite_passes() -> None:
    folder = Path(__file__).parent / "connect"
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "--quiet", str(folder)]
    environment = os.environ | {"UNSKEW_TEST_CONNECT": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-5000:]
    assert " passed" in ended.stdout
    assert "skipped" not in ended.stdout
