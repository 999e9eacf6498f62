"""Files that only the driver reaches, for the tick, which is a Python process beside it."""

from __future__ import annotations

import tempfile
from functools import cache
from multiprocessing.connection import Client, Connection, Listener
from threading import Thread
from typing import Any

from unskew.spark.offsets import FileReader

DRIVER = "driver:"
SHORT = "/tmp"  # a socket's address has at most 107 bytes, and TMPDIR may be longer, as on YARN

_SERVED: dict[str, FileReader] = {}


def served(root: str, files: FileReader) -> str:
    """Let other processes of this user and machine read files, and return what `ServedFiles` takes.

    All files of this process share one thread and one socket, in a folder that nobody else may enter.
    """
    _SERVED[root] = files
    return f"{DRIVER}{_address()}:{root}"


class ServedFiles:
    """Files as the driver sees them; see `unskew.spark.offsets.FileReader`."""

    def __init__(self, place: str) -> None:
        address, _, self.root = place.removeprefix(DRIVER).partition(":")
        self._connection = Client(address)

    def read_or_none(self, name: str) -> bytes | None:
        return self.ask("read_or_none", name)  # type: ignore[no-any-return]

    def names(self, folder: str) -> list[str]:
        return self.ask("names", folder)  # type: ignore[no-any-return]

    def ask(self, method: str, name: str) -> Any:
        """Call a method of the driver's files; raise what it raises."""
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
        except Exception as error:  # for the other side to raise
            answer = error
        connection.send(answer)
