from __future__ import annotations

import os
import subprocess
import sys

import pytest

from unskew_lab.bench.processes import DRIVER, WORKERS, Peak, family, files_below, usage

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
HOLD = "import sys; held = b'x' * 50_000_000; print('ready', flush=True); sys.stdin.read()"


@pytest.fixture
def child():
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.stdin.close()


def test_a_family_is_a_process_and_its_descendants(child):
    assert {os.getpid(), child.pid} <= set(family(os.getpid()))
    assert family(child.pid) == [child.pid]


def test_what_a_child_holds_counts_for_workers(child):
    found = usage()
    assert found[WORKERS].memory_bytes > 50_000_000
    assert found[WORKERS].processes >= 1
    assert found[DRIVER].processes == 1
    assert usage(child.pid)[DRIVER].memory_bytes > 50_000_000


def test_open_files_count(tmp_path):
    before = usage()[DRIVER].open_files
    with (tmp_path / "file").open("w"):
        assert usage()[DRIVER].open_files == before + 1


def test_the_peak_is_kept_after_a_child_has_gone():
    with Peak() as peak, subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE) as process:
        while peak.bytes[WORKERS] < 50_000_000:
            pass
        process.stdin.close()
    assert peak.bytes[WORKERS] >= 50_000_000


def test_files_below_a_folder(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "one").write_bytes(b"12")
    (tmp_path / "a" / "b" / "two").write_bytes(b"345")
    assert files_below(tmp_path) == (2, 5)
    assert files_below(tmp_path / "missing") == (0, 0)
