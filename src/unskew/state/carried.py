"""Files of a place that tasks cannot reach: contents come with a task's parcels, and leave with its results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from unskew.state.files import Files


class NotHereError(Exception):
    """What a task has to read has not come with its parcels."""


class _Mail:
    """The part of `Place` that a task needs."""

    def __init__(self) -> None:
        self.arrived: dict[str, list[tuple[int, pa.Buffer]]] = {}  # offset and contents, by name
        self.written: dict[str, bytes] = {}

    def write(self, name: str, data: bytes) -> None:
        self.written[name] = data

    def read_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        for start, data in self.arrived.get(name, ()):
            if start <= offset and offset + length <= start + data.size:
                return data.slice(offset - start, length)
        raise NotHereError(name)


@dataclass(frozen=True, eq=False)
class CarriedFiles(Files):
    """What one task knows of the files below a root.

    It reads what has come (`take_in`), and raises `NotHereError` for anything else. It keeps what it writes until
    `leaving`; nothing is durable before the driver has written it.
    """

    mail: _Mail = field(default_factory=_Mail)

    @property
    def _place(self) -> Any:
        return self.mail

    def take_in(self, name: str, offset: int, data: bytes | pa.Buffer) -> None:
        self.mail.arrived.setdefault(name, []).append((offset, pa.py_buffer(data)))

    def leaving(self) -> Iterable[tuple[str, bytes]]:
        return self.mail.written.items()
