"""Files of a place that tasks cannot reach: contents come with a task's parcels, and leave with its results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from unskew.state.files import Files


class NotHereError(Exception):
    """What a task has to read has not come with its parcels."""


@dataclass(eq=False)
class Mail:
    """Parts of files by name, as far as a task has them; of a `Place` only what tasks do."""

    arrived: dict[str, list[tuple[int, pa.Buffer]]] = field(default_factory=dict)
    written: dict[str, bytes] = field(default_factory=dict)

    def write(self, name: str, data: bytes) -> None:
        """Keep a file that the driver will write."""
        self.written[name] = data

    def read_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        """Return a part of a file that has come."""
        for start, data in self.arrived.get(name, ()):
            if start <= offset and offset + length <= start + data.size:
                return data.slice(offset - start, length)
        raise NotHereError(name)


@dataclass(frozen=True, eq=False)
class CarriedFiles(Files):
    """What one task knows of the files below a root.

    It reads what has come (`take_in`), and raises `NotHereError` for anything else. What it writes is kept until
    somebody takes it along (`leaving`); nothing is durable before the driver has written it.

    Examples
    --------
    >>> files = CarriedFiles("hdfs://ck/unskew")
    >>> files.take_in("state/7/a-0.arrow", 64, b"some state")
    >>> files._place.read_range("state/7/a-0.arrow", 69, 5).to_pybytes()
    b'state'
    >>> files.write("state/8/b-0.arrow", b"more")
    >>> list(files.leaving())
    [('state/8/b-0.arrow', b'more')]
    """

    mail: Mail = field(default_factory=Mail)

    @property
    def _place(self) -> Any:
        return self.mail

    def take_in(self, name: str, offset: int, data: bytes | pa.Buffer) -> None:
        """Keep a part of a file that has come."""
        self.mail.arrived.setdefault(name, []).append((offset, pa.py_buffer(data)))

    def leaving(self) -> Iterable[tuple[str, bytes]]:
        """Return the files that were written here."""
        return self.mail.written.items()
