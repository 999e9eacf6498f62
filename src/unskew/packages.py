"""The packages that unskew needs, from its own metadata, and whether what is installed fits."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement


@dataclass(frozen=True)
class Package:
    """One needed package, the versions that fit, and the one that is installed.

    Examples
    --------
    >>> Package("pandas", needed="<3,>=2.2", installed="3.0.1").fits
    False
    >>> Package("pandas", needed="<3,>=2.2", installed="2.3.3").fits
    True
    """

    name: str
    needed: str
    installed: str | None

    @property
    def fits(self) -> bool:
        """Whether it is there, in a version that fits."""
        if self.installed is None:
            return False
        return Requirement(f"{self.name}{self.needed}").specifier.contains(self.installed, prereleases=True)

    @property
    def problem(self) -> str:
        """One clause that says what is wrong."""
        if self.installed is None:
            return f"{self.name} is not installed"
        return f"{self.name} {self.installed} does not fit"

    @property
    def remedy(self) -> str:
        """The command that puts it right."""
        return f'pip install "{self.name}{self.needed}"'


def needed_packages() -> list[Package]:
    """Return every package that unskew declares as needed, extras aside, with what is installed of it."""
    requirements = [Requirement(line) for line in metadata.requires("unskew") or []]
    needed = [each for each in requirements if each.marker is None or each.marker.evaluate({"extra": ""})]
    return [Package(each.name, str(each.specifier), installed_version(each.name)) for each in needed]


def installed_version(name: str) -> str | None:
    """Return the installed version of package `name` without importing it, None when it is missing."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
