"""The page of the balanced query: live while the race lasts, then as a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unskew.runtime.history import History
from unskew.state.files import Files
from unskew.watch.page import as_html
from unskew.watch.server import Server

QUERY = "demo: the race under unskew"


@contextmanager
def live_page(checkpoint: Path, file: Path) -> Iterator[str]:
    """Serve the page on the loopback address and give its URL; at the end, write it to a file.

    Nothing may be there yet: the page waits for the first batch. The file is needed because the checkpoint is thrown
    away together with the race.
    """
    own = Files(str(checkpoint / "unskew"))
    server = Server({QUERY: History(own)})
    try:
        yield server.url
    finally:
        server.stop()
        batches = list(History(own).refresh().values())
        if batches:
            file.write_text(as_html({QUERY: batches}), encoding="utf-8")
