from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unskew import java
from unskew.java import Java, all_javas, find_java


def pretend(folder: Path, version: str, exit_code: int = 0) -> Path:
    """Write a program that answers ``-version`` as Java does."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\nexit {exit_code}\n")
    command.chmod(0o755)
    return folder


@pytest.fixture
def nothing_installed(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(java, "USUAL_PLACES", (f"{tmp_path}/usual/*",))
    return tmp_path


@pytest.mark.parametrize(
    ("version", "major"), [("1.8.0_392", 8), ("11.0.2", 11), ("17.0.15", 17), ("21", 21), ("25-ea", 25)]
)
def test_major_version(version, major):
    assert Java(Path("/x"), version).major == major


def test_none_is_found_where_there_is_none(nothing_installed):
    assert find_java() is None


def test_java_home_comes_before_path_and_the_usual_places(nothing_installed, monkeypatch):
    usual = pretend(nothing_installed / "usual" / "a", "21.0.1")
    assert find_java() == Java(usual, "21.0.1")
    on_path = pretend(nothing_installed / "path", "17.0.9")
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    assert find_java() == Java(on_path, "17.0.9")
    home = pretend(nothing_installed / "home", "18.0.2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java() == Java(home, "18.0.2")


def test_what_is_too_old_or_broken_is_passed_over(nothing_installed, monkeypatch):
    old = pretend(nothing_installed / "old", "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(old))
    pretend(nothing_installed / "usual" / "broken", "17.0.1", exit_code=1)
    good = pretend(nothing_installed / "usual" / "another", "17.0.2")
    assert find_java() == Java(good, "17.0.2")
    assert [found.version for found in all_javas()] == ["1.8.0_392", "17.0.2"]


def test_runs_alone_before_anything_is_installed(tmp_path):
    home = pretend(tmp_path / "java", "17.0.3")
    command = [sys.executable, "-I", "-S", java.__file__]
    done = subprocess.run(
        command, env={**os.environ, "JAVA_HOME": str(home)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(home)
