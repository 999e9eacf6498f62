"""A disk in memory: fast, and it fails where a test wants it to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from unskew.state.carried import CarriedFiles
from unskew.state.files import Files, Piece
from unskew.state.place import Place


@dataclass(eq=False)
class MemoryPlace:
    """Files in a dictionary; see `unskew.state.place.Place`."""

    contents: dict[str, bytes] = field(default_factory=dict)
    happening: Callable[[str, str], None] = lambda operation, name: None  # called around writes; raises to fail them

    def create(self, name: str, data: bytes) -> bool:
        self.happening("before create", name)
        if name in self.contents:
            return False
        self.contents[name] = bytes(data)
        self.happening("after create", name)
        return True

    def write(self, name: str, data: bytes) -> None:
        self.happening("before write", name)
        self.contents[name] = bytes(data)
        self.happening("after write", name)

    def replace(self, name: str, data: bytes) -> None:
        self.write(name, data)

    def read(self, name: str) -> bytes:
        if name not in self.contents:
            raise FileNotFoundError(name)
        return self.contents[name]

    def read_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        return pa.py_buffer(self.read(name)[offset : offset + length])

    def names(self, folder: str) -> list[str]:
        start = f"{folder}/" if folder else ""
        return list({name[len(start) :].split("/")[0] for name in self.contents if name.startswith(start)})

    def exists(self, name: str) -> bool:
        return name in self.contents

    def remove(self, name: str) -> None:
        self.happening("before remove", name)
        self.contents.pop(name, None)

    def remove_folder(self, name: str) -> None:
        self.happening("before remove", name)
        for each in [each for each in self.contents if each.startswith(f"{name}/")]:
            del self.contents[each]


@dataclass(frozen=True, eq=False)
class MemoryFiles(Files):
    """`Files` in this process."""

    place: MemoryPlace = field(default_factory=MemoryPlace)

    @property
    def _place(self) -> Place:
        return self.place


class FarFiles(MemoryFiles):
    """`MemoryFiles` that tasks cannot reach: tasks get what they read, and the driver writes for them."""

    def __reduce__(self) -> tuple[Any, ...]:
        return CarriedFiles, (self.root,)

    def enclosed(self, pieces: Iterable[Piece]) -> Mapping[Piece, bytes]:
        return {piece: bytes(self.read_piece(piece)) for piece in pieces}
