from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unskew.kernel_cache import kernel_cache


@pytest.fixture
def nothing_set(monkeypatch):
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_a_folder_that_is_set_wins(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert kernel_cache() == tmp_path


def test_the_package_itself_where_it_can_be_written(nothing_set, tmp_path):
    assert kernel_cache(tmp_path) == tmp_path


def test_the_users_cache_where_the_package_is_read_only(nothing_set, monkeypatch, tmp_path):
    unwritable = tmp_path / "file"  # even for root, whom permissions do not stop
    unwritable.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert kernel_cache(unwritable / "package") == tmp_path / "cache" / "numba"
    monkeypatch.setenv("XDG_CACHE_HOME", str(unwritable))
    assert kernel_cache(unwritable / "package") is None


CACHED_KERNEL = """
import sys
import unskew
from unskew import kernel_cache

kernel_cache.kernel_cache = lambda: None  # as on a machine where nothing can be written to
kernel_cache.ensure_kernel_cache()
import numba
print(numba.config.CACHE_DIR)
"""


def test_numba_gets_a_folder_of_this_user_as_the_last_resort(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", CACHED_KERNEL],
        env={**environment, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    folder = Path(done.stdout.strip())
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700


def test_importing_unskew_makes_sure_of_it(tmp_path):
    """Where nothing can be written to, an import of the package must still let kernels be imported."""
    code = "import os, unskew; print(os.environ.get('NUMBA_CACHE_DIR', 'the usual places do'))"
    read_only = "import os; os.access = lambda *a: False\n"
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", read_only + code],
        env={**environment, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.strip()).parent == tmp_path
