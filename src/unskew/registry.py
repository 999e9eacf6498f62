"""One registry per family of named classes, filled by the classes themselves."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Collection, Iterator, Mapping
from typing import Generic, TypeVar

from unskew.errors import ArgumentError

T = TypeVar("T")


class Registry(Mapping[str, type[T]], Generic[T]):
    """Classes by name; a name that is not there is answered with the nearest one that is.

    Parameters
    ----------
    family
        What the members are called in messages, in the singular: ``"planner"``.
    package
        The package whose modules register themselves when imported. They are imported at the first look-up,
        so that a newcomer adds a member by adding one file.
    skip
        Modules of the package that register nothing and are not to be imported for a look-up.
    """

    def __init__(self, family: str, package: str, skip: Collection[str] = ()) -> None:
        self.family = family
        self._package = package
        self._skip = skip
        self._members: dict[str, type[T]] = {}
        self._loaded = False

    def add(self, name: str, member: type[T]) -> None:
        """Register `member` under `name`; called from ``__init_subclass__`` of the family's base class."""
        known = self._members.get(name)
        if known is not None and known.__qualname__ != member.__qualname__:
            raise ArgumentError(f"two classes claim the {self.family} name {name!r}: {known} and {member}")
        self._members[name] = member

    def __getitem__(self, name: str) -> type[T]:
        """Return the class registered under `name`, or raise `ArgumentError` with the nearest name."""
        self._load()
        if name not in self._members:
            near = difflib.get_close_matches(name, self._members, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}" if near else f"one of {', '.join(sorted(self._members))}"
            raise ArgumentError(f"there is no {self.family} of that name", got=name, hint=hint)
        return self._members[name]

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted(self._members))

    def __len__(self) -> int:
        self._load()
        return len(self._members)

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            if module.name not in self._skip:
                importlib.import_module(f"{self._package}.{module.name}")
