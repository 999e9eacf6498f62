"""A disk in memory that does as it is told: quick, and it fails where a test wants it to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from unskew.state.carried import CarriedFiles
from unskew.state.files import Files, Piece
from unskew.state.place import Place

Happening = Callable[[str, str], None]
"""Called with an operation and a name, before and after each write; raises where it should fail."""


def _nothing(operation: str, name: str) -> None:
    pass


@dataclass(eq=False)
class MemoryPlace:
    """Files in a dictionary; see `unskew.state.place.Place`."""

    contents: dict[str, bytes] = field(default_factory=dict)
    happening: Happening = _nothing

    def create(self, name: str, data: bytes) -> bool:
        """Write a file if there is none."""
        self.happening("before create", name)
        if name in self.contents:
            return False
        self.contents[name] = bytes(data)
        self.happening("after create", name)
        return True

    def write(self, name: str, data: bytes) -> None:
        """Write a file."""
        self.happening("before write", name)
        self.contents[name] = bytes(data)
        self.happening("after write", name)

    def replace(self, name: str, data: bytes) -> None:
        """Write a file, over what is there."""
        self.write(name, data)

    def read(self, name: str) -> bytes:
        """Return a file's contents."""
        if name not in self.contents:
            raise FileNotFoundError(name)
        return self.contents[name]

    def read_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        """Return a part of a file."""
        return pa.py_buffer(self.read(name)[offset : offset + length])

    def names(self, folder: str) -> list[str]:
        """Return what is in a folder."""
        start = f"{folder}/" if folder else ""
        return list({name[len(start) :].split("/")[0] for name in self.contents if name.startswith(start)})

    def exists(self, name: str) -> bool:
        """Tell whether there is such a file."""
        return name in self.contents

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        self.happening("before remove", name)
        self.contents.pop(name, None)

    def remove_folder(self, name: str) -> None:
        """Remove a folder with all that is in it."""
        self.happening("before remove", name)
        for each in [each for each in self.contents if each.startswith(f"{name}/")]:
            del self.contents[each]


@dataclass(frozen=True, eq=False)
class MemoryFiles(Files):
    """`Files` in this process.

    Examples
    --------
    >>> files = MemoryFiles("memory", MemoryPlace())
    >>> files.create("epochs/1", b"mine"), files.create("epochs/1", b"yours"), files.names("epochs")
    (True, False, ['1'])
    """

    place: MemoryPlace = field(default_factory=MemoryPlace)

    @property
    def _place(self) -> Place:
        return self.place


class FarFiles(MemoryFiles):
    """`MemoryFiles` that tasks cannot reach: tasks are given what they read, and the driver writes for them.

    Examples
    --------
    >>> from copy import deepcopy
    >>> deepcopy(FarFiles("memory")).root, type(deepcopy(FarFiles("memory"))).__name__
    ('memory', 'CarriedFiles')
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return CarriedFiles, (self.root,)

    def enclosed(self, pieces: Iterable[Piece]) -> Mapping[Piece, bytes]:
        """Return all of them."""
        return {piece: bytes(self.read_piece(piece)) for piece in pieces}
