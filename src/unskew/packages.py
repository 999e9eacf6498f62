"""The packages that unskew requires, and whether the installed versions fit."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement


@dataclass(frozen=True)
class Package:
    """A required package: the versions that fit, and the one that is installed."""

    name: str
    needed: str
    installed: str | None

    @property
    def fits(self) -> bool:
        if self.installed is None:
            return False
        return Requirement(f"{self.name}{self.needed}").specifier.contains(self.installed, prereleases=True)

    @property
    def problem(self) -> str:
        if self.installed is None:
            return f"{self.name} is not installed"
        return f"{self.name} {self.installed} does not fit"

    @property
    def remedy(self) -> str:
        return f'pip install "{self.name}{self.needed}"'


def needed_packages() -> list[Package]:
    """Return the packages that unskew requires, without its extras."""
    requirements = [Requirement(line) for line in metadata.requires("unskew") or []]
    needed = [each for each in requirements if each.marker is None or each.marker.evaluate({"extra": ""})]
    return [Package(each.name, str(each.specifier), installed_version(each.name)) for each in needed]


def installed_version(name: str) -> str | None:
    """Return the installed version of a package without importing it, or None if it is missing."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
