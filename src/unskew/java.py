"""Find a Java that Spark can run on.

This file uses only the standard library, so that the set-up can run it before any package is installed:
``python src/unskew/java.py`` prints the home of the Java it found.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OLDEST = 17

USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)

HOW_TO_INSTALL = (
    f"install Java {OLDEST} or newer (Debian and Ubuntu: apt-get install openjdk-17-jre-headless; "
    "Fedora: dnf install java-17-openjdk-headless; macOS: brew install openjdk@17) "
    "or set JAVA_HOME to where one is"
)


@dataclass(frozen=True)
class Java:
    """A Java found on this machine."""

    home: Path
    version: str

    @property
    def major(self) -> int:
        numbers = [int(number) for number in re.findall(r"\d+", self.version)]
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]

    @property
    def fits(self) -> bool:
        return self.major >= OLDEST


def find_java() -> Java | None:
    """Return the first Java that fits, from JAVA_HOME, PATH or the usual places, or None."""
    return next((java for java in all_javas() if java.fits), None)


def all_javas() -> Iterator[Java]:
    """Yield every Java on this machine once, fitting or not, the preferred ones first."""
    seen = set()
    for home in _homes():
        java = _ask(home)
        if java is not None and java.home not in seen:
            seen.add(java.home)
            yield java


def _homes() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    apple_stub = sys.platform == "darwin" and on_path == "/usr/bin/java"  # opens a dialogue if there is no Java
    if on_path and not apple_stub:
        yield Path(on_path).resolve().parent.parent
    for pattern in USUAL_PLACES:
        place = Path(pattern).expanduser()
        yield from sorted(Path(place.anchor).glob(str(place.relative_to(place.anchor))), reverse=True)


def _ask(home: Path) -> Java | None:
    command = home / "bin" / "java"
    try:
        answer = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return Java(home.resolve(), version[1]) if version else None


if __name__ == "__main__":
    found = find_java()
    if found is None:
        sys.exit(f"No Java {OLDEST} or newer was found: {HOW_TO_INSTALL}.")
    print(found.home)
