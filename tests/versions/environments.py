"""One environment for each Spark and Python, made from the locked files and kept below ``.versions``."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".versions"
REQUIREMENTS = ROOT / "requirements"
STAMP = "unskew-ready"


@dataclass(frozen=True)
class Version:
    """A Spark and a Python that fit, such as 4.0 and 3.11."""

    spark: str
    python: str

    def __str__(self) -> str:
        return f"{self.spark}/{self.python}"

    @property
    def home(self) -> Path:
        return HOME / f"spark-{self.spark}-python-{self.python}"

    @property
    def locks(self) -> list[Path]:
        """The files that say what is installed, in the order in which it is."""
        versions = REQUIREMENTS / "versions"
        return [REQUIREMENTS / "build.txt", versions / "core.txt", versions / f"spark-{self.spark}.txt"]

    def interpreter(self) -> str | None:
        """Return a Python of this version on this machine; None if there is none that runs."""
        installed = sorted(Path.home().glob(f".pyenv/versions/{self.python}.*/bin/python"))
        for candidate in (f"python{self.python}", *map(str, installed)):
            found = shutil.which(candidate)
            if (
                found is not None
                and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0
            ):
                return found
        return None

    def make(self, interpreter: str) -> str:
        """Return the interpreter of the environment; make it, unless nothing has changed since it was made."""
        python, stamp, made_from = self.home / "bin" / "python", self.home / STAMP, self._fingerprint(interpreter)
        if stamp.exists() and stamp.read_text() == made_from:
            return str(python)
        shutil.rmtree(self.home, ignore_errors=True)
        subprocess.run([interpreter, "-m", "venv", str(self.home)], check=True)
        install = [
            str(python),
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--quiet",
            "install",
            "--no-build-isolation",
        ]
        for lock in self.locks:
            subprocess.run([*install, "--require-hashes", "-r", str(lock)], check=True)
        subprocess.run([*install, "--no-deps", "-e", str(ROOT)], check=True)
        stamp.write_text(made_from)
        return str(python)

    def exact(self, python: str) -> list[str]:
        """Return the versions of Spark and Python of the environment, with their patches."""
        code = "import platform, pyspark; print(pyspark.__version__, platform.python_version())"
        return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    def _fingerprint(self, interpreter: str) -> str:
        files = [*self.locks, ROOT / "pyproject.toml", Path(__file__)]
        digest = hashlib.sha256(b"".join(file.read_bytes() for file in files))
        return f"{digest.hexdigest()} {interpreter} {ROOT}\n"


MATRIX = tuple(
    Version(spark, python)
    for spark, pythons in {
        "4.0": ("3.11", "3.12"),
        "4.1": ("3.11",),
        "4.2": ("3.11",),
        "4.3": ("3.11", "3.12", "3.13"),
    }.items()
    for python in pythons
)
