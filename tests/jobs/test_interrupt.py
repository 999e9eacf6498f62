"""Ctrl-C while a job runs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.spark
@pytest.mark.slow
def test_ctrl_c_ends_a_job_cleanly_and_the_same_command_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "unskew", "run", "--source", "rate", "--source-option", "rowsPerSecond=50"]
    command += ["--column", "bucket=value % 7", "--key", "bucket", "--aggregate", "count", "--channels", "2"]
    command += ["--sink", f"json:{tmp_path / 'out'}"]
    job = subprocess.Popen([*command, "--follow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in job.stdout:
        if line.startswith("batch   1:"):
            break
    job.send_signal(signal.SIGINT)
    printed, errors = job.communicate(timeout=120)
    assert (job.returncode, errors) == (130, "")
    assert "Stopped: " in printed
    assert "Traceback" not in printed
    again = subprocess.run([*command, "--batches", "1"], capture_output=True, text=True, check=True, timeout=300)
    assert "Done: " in again.stdout
    first = next(line for line in again.stdout.splitlines() if line.startswith("batch "))
    assert int(first.split(":")[0].removeprefix("batch")) >= 1, "which runs again if its commit was cut off"
