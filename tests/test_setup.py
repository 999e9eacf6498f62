"""The set-up script, with a Python and an apt that only write down what they are asked to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOLS = ("bash", "env", "cat", "cksum", "rm", "mkdir", "cp", "id", "touch", "sh")

PYTHON = """#!/bin/sh
echo "python $*" >>"$LOG"
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$0" "$3/bin/unskew" ;;
  *" -r requirements/lock.txt") exit ${PIP_EXIT:-0} ;;
  "src/unskew/java.py") [ -e "$JAVA" ] || { echo "No Java was found: install it" >&2; exit 1; } ;;
  "-c "*) exec REAL "$@" ;;
  "--version") echo "Python 3.12.0" ;;
esac
"""

APT = """#!/bin/sh
echo "apt-get $*" >>"$LOG"
case "$*" in *install*openjdk-21*) touch "$JAVA" ;; *install*) exit 1 ;; esac
"""


class Sandbox:
    """A copy of what the script needs, and a path on which there is nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.java = folder, folder / "log", folder / "java"
        self.tools = folder / "tools"
        self.tools.mkdir()
        for tool in TOOLS:
            (self.tools / tool).symlink_to(shutil.which(tool))
        self.program("python3.12", PYTHON.replace("REAL", sys.executable))
        self.repository = folder / "repository"
        for name in ("requirements/lock.txt", "requirements/build.txt", "pyproject.toml", "scripts/setup.sh"):
            (self.repository / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.repository / name)
        self.java.touch()

    def program(self, name: str, text: str) -> None:
        (self.tools / name).write_text(text)
        (self.tools / name).chmod(0o755)

    def run(self, **environment: str) -> tuple[int, list[str], str]:
        """Run the script; return its exit code, what was asked of Python and apt, and what it printed."""
        self.log.write_text("")
        given = {"PATH": str(self.tools), "LOG": str(self.log), "JAVA": str(self.java), "HOME": str(self.folder)}
        done = subprocess.run(
            [self.repository / "scripts" / "setup.sh"],
            env={**given, "CI": "true", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        asked = [line for line in self.log.read_text().splitlines() if " -c " not in line and "--version" not in line]
        return done.returncode, asked, done.stderr

    @property
    def stamp(self) -> Path:
        return self.repository / ".venv" / ".unskew-ready"


@pytest.fixture
def sandbox(tmp_path):
    return Sandbox(tmp_path)


def made_venv(asked: list[str]) -> bool:
    return any(line.startswith("python -m venv") for line in asked)


def installed(asked: list[str]) -> bool:
    return any("--require-hashes -r requirements/lock.txt" in line for line in asked)


def test_sets_up_once_and_is_silent_when_nothing_changed(sandbox):
    code, asked, said = sandbox.run()
    assert code == 0, said
    assert made_venv(asked)
    assert installed(asked)
    assert any("--require-hashes -r requirements/build.txt" in line for line in asked)
    assert any("install --quiet --no-deps --no-build-isolation -e ." in line for line in asked)
    assert sandbox.stamp.exists()
    assert sandbox.run() == (0, [], "")


def test_an_interrupted_install_is_taken_up_again(sandbox):
    code, _, _ = sandbox.run(PIP_EXIT="1")
    assert code != 0
    assert not sandbox.stamp.exists()
    code, asked, _ = sandbox.run()
    assert (code, made_venv(asked), installed(asked)) == (0, False, True)


def test_a_broken_environment_is_made_anew(sandbox):
    sandbox.run()
    (sandbox.repository / ".venv" / "bin" / "python").unlink()
    code, asked, _ = sandbox.run()
    assert (code, made_venv(asked), installed(asked)) == (0, True, True)


def test_a_changed_lock_is_installed(sandbox):
    sandbox.run()
    with (sandbox.repository / "requirements" / "lock.txt").open("a") as lock:
        lock.write("# newer\n")
    code, asked, _ = sandbox.run()
    assert (code, made_venv(asked), installed(asked)) == (0, False, True)


def test_a_moved_environment_is_noticed(sandbox):
    sandbox.run()
    sandbox.repository = sandbox.repository.rename(sandbox.folder / "moved")
    code, asked, _ = sandbox.run()
    assert (code, installed(asked)) == (0, True)


def test_without_python_it_says_what_to_install(sandbox):
    (sandbox.tools / "python3.12").unlink()
    code, _, said = sandbox.run()
    assert code == 1
    assert "Python 3.11 or newer is needed and was not found" in said
    assert "make PYTHON=" in said


def test_the_interpreter_chosen_once_is_kept(sandbox):
    sandbox.program("chosen", (sandbox.tools / "python3.12").read_text())
    code, asked, _ = sandbox.run(PYTHON="chosen")
    assert (code, made_venv(asked)) == (0, True)
    assert sandbox.run() == (0, [], "")
    other = '#!/bin/sh\ncase "$*" in *print*) echo 3.99 ;; *) exec python3.12 "$@" ;; esac\n'
    sandbox.program("other", other)
    code, asked, _ = sandbox.run(PYTHON="other")
    assert (code, made_venv(asked), installed(asked)) == (0, True, True)


def test_a_chosen_python_that_is_too_old_is_refused(sandbox):
    sandbox.program("old", "#!/bin/sh\nexit 1\n")
    code, asked, said = sandbox.run(PYTHON="old")
    assert (code, asked) == (1, [])
    assert "PYTHON=old is not a Python 3.11 or newer" in said


def test_without_java_and_apt_it_says_what_to_install_before_it_installs_anything(sandbox):
    sandbox.java.unlink()
    code, asked, said = sandbox.run()
    assert code == 1
    assert "No Java was found: install it" in said
    assert not installed(asked)


@pytest.mark.skipif(os.getuid() != 0, reason="another user would need sudo")
def test_java_is_installed_with_apt_where_it_may(sandbox):
    sandbox.java.unlink()
    sandbox.program("apt-get", APT)
    code, asked, said = sandbox.run()
    assert code == 0, said
    apt = [line for line in asked if line.startswith("apt-get")]
    assert apt[0].startswith("apt-get update")
    assert [line.split()[-1] for line in apt[1:]] == ["openjdk-17-jre-headless", "openjdk-21-jre-headless"]


def test_sudo_is_not_asked_for_a_password(sandbox):
    sandbox.java.unlink()
    sandbox.program("apt-get", APT)
    (sandbox.tools / "id").unlink()
    sandbox.program("id", "#!/bin/sh\necho 1000\n")
    sandbox.program("sudo", '#!/bin/sh\necho "sudo $*" >>"$LOG"\nexit 1\n')
    code, asked, _ = sandbox.run()
    assert code == 1
    assert [line for line in asked if not line.startswith("python")] == ["sudo -n true"]
