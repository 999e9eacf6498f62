"""One registry per family of named classes, filled by the classes themselves."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Generic, TypeVar

from unskew.errors import ArgumentError, did_you_mean

T = TypeVar("T")


class Registry(Mapping[str, type[T]], Generic[T]):
    """Classes of one family by name, such as all planners.

    The first look-up imports every module of `package` except those in `skip`, and each class registers itself.
    """

    def __init__(self, family: str, package: str, skip: Collection[str] = ()) -> None:
        self.family = family
        self._package = package
        self._skip = skip
        self._members: dict[str, type[T]] = {}
        self._loaded = False

    def add(self, name: str, member: type[T]) -> None:
        known = self._members.get(name)
        if known is not None and known.__qualname__ != member.__qualname__:
            raise ArgumentError(f"two classes claim the {self.family} name {name!r}: {known} and {member}")
        self._members[name] = member

    def __getitem__(self, name: str) -> type[T]:
        self._load()
        if not isinstance(name, str) or name not in self._members:
            hint = did_you_mean(str(name), sorted(self._members))
            raise ArgumentError(f"there is no {self.family} of that name", got=name, hint=hint)
        return self._members[name]

    def make(self, name: str, **parameters: Any) -> T:
        """Return a new member; the error for an unknown parameter lists those that the class takes."""
        cls = self[name]
        known = set(inspect.signature(cls).parameters)
        if unknown := sorted(set(parameters) - known):
            what = f"{self.family} {name!r} has no parameter {unknown[0]!r}"
            raise ArgumentError(what, hint=f"it takes {', '.join(sorted(known))}")
        return cls(**parameters)

    def __contains__(self, name: object) -> bool:
        self._load()
        return isinstance(name, str) and name in self._members

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
