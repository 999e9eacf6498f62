"""Files that only the driver reaches, for a Python process beside it: the tick's."""

from __future__ import annotations

import tempfile
from functools import cache
from multiprocessing.connection import Client, Connection, Listener
from threading import Thread
from typing import Any

from unskew.spark.offsets import FileReader

DRIVER = "driver:"
SHORT = "/tmp"
"""The address of a socket has 107 bytes at most, and TMPDIR may be longer, as on YARN."""

_SERVED: dict[str, FileReader] = {}


def served(root: str, files: FileReader) -> str:
    """Answer what other processes of this user and machine ask about files; return what `ServedFiles` takes.

    One thread and one socket for all files of this process, in a folder that nobody else may enter.
    """
    _SERVED[root] = files
    return f"{DRIVER}{_address()}:{root}"


class ServedFiles:
    """Files as the driver sees them; see `unskew.spark.offsets.FileReader`."""

    def __init__(self, place: str) -> None:
        address, _, self.root = place.removeprefix(DRIVER).partition(":")
        self._connection = Client(address)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return bytes(self._ask("read", name))

    def read_or_none(self, name: str) -> bytes | None:
        """Return the content of a file, None if there is no such file."""
        answer: bytes | None = self._ask("read_or_none", name)
        return answer

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, none if there is no such folder."""
        return list(self._ask("names", folder))

    def _ask(self, method: str, name: str) -> Any:
        self._connection.send((self.root, method, name))
        answer = self._connection.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


@cache
def _address() -> str:
    folder = tempfile.mkdtemp(prefix="unskew-", dir=SHORT)
    listener = Listener(f"{folder}/files", "AF_UNIX")
    Thread(target=_accept, args=(listener,), name="unskew-files", daemon=True).start()
    return str(listener.address)


def _accept(listener: Listener) -> None:
    while True:
        Thread(target=_answer, args=(listener.accept(),), name="unskew-files", daemon=True).start()


def _answer(connection: Connection) -> None:
    """Answer one process until it ends."""
    while True:
        try:
            root, method, name = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer = getattr(_SERVED[root], method)(name)
        except Exception as error:  # it is for the other side to raise
            answer = error
        connection.send(answer)
