"""The figures of every batch, kept for people. A query never reads them, and goes on where they cannot be written."""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from unskew.errors import CheckpointError
from unskew.runtime.figures import BatchFigures
from unskew.runtime.record import Record
from unskew.state.files import Files

FOLDER = "history"
SUFFIX = ".jsonl.gz"
BATCHES_PER_FILE = 50
BATCHES_KEPT = 10_000
READS_AT_ONCE = 8


def file_of(number: int) -> str:
    """Return the name of a file.

    >>> file_of(3)
    'history/3.jsonl.gz'
    """
    return f"{FOLDER}/{number}{SUFFIX}"


def numbers(files: Files) -> list[int]:
    """Return the numbers of the files, in order; file k is about batches 50 k to 50 k + 49."""
    stems = (name.removesuffix(SUFFIX) for name in files.names(FOLDER))
    return sorted(int(stem) for stem in stems if stem.isdigit())


class HistoryWriter:
    """Adds a line of JSON for every batch, each a gzip member of its own, so a line is compressed once.

    The file under way is written anew with every batch: object stores cannot append. A line that could not be written
    goes out with the next one.
    """

    def __init__(self, files: Files) -> None:
        self._files, self._number, self._data = files, -1, b""

    def add(self, record: Record, seconds: Mapping[str, float] | None = None) -> None:
        """Write the figures of a batch that is committed; a failure is logged, not raised."""
        figures = json.loads(record.figures) | ({} if seconds is None else {"seconds": seconds})
        line = gzip.compress(f"{json.dumps(figures)}\n".encode(), 6, mtime=0)
        try:
            self._turn_to(record.batch_id // BATCHES_PER_FILE)
            self._data += line
            self._files.replace(file_of(self._number), self._data)
        except CheckpointError as error:
            logging.getLogger(__name__).warning("the history lacks batch %d: %s", record.batch_id, error)

    def catch_up(self, record: Record) -> None:
        """Add the last batch of an earlier start if that one died before it could."""
        try:
            self._turn_to(record.batch_id // BATCHES_PER_FILE)
        except CheckpointError:
            return
        if not any(figures.batch_id == record.batch_id for figures in _lines(self._data)):
            self.add(record)

    def _turn_to(self, number: int) -> None:
        if number != self._number:
            self._data, self._number = self._files.read_or_none(file_of(number)) or b"", number

    def forget(self, committed: int) -> None:
        """Remove files that hold only batches too old to be kept."""
        last = (committed - BATCHES_KEPT) // BATCHES_PER_FILE
        try:
            for number in numbers(self._files):
                if number < last:
                    self._files.remove(file_of(number))
        except CheckpointError as error:
            logging.getLogger(__name__).warning("old files of the history are still there: %s", error)


class History:
    """Reads the figures of the last batches of a query that runs, has stopped or has crashed.

    Batches whose line is missing or damaged are left out.
    """

    def __init__(self, files: Files, batches: int = BATCHES_KEPT) -> None:
        self._files, self._batches = files, batches
        self._sizes: dict[int, int] = {}
        self._known: dict[int, BatchFigures] = {}

    def refresh(self) -> dict[int, BatchFigures]:
        """Read what is new; return all figures by batch, in order."""
        found = numbers(self._files)[-(self._batches // BATCHES_PER_FILE + 2) :]
        wanted = [number for number in found if number >= max(self._sizes, default=0)]
        with ThreadPoolExecutor(READS_AT_ONCE) as pool:
            read = list(pool.map(self._files.read_or_none, map(file_of, wanted)))
        grown = False
        for number, data in zip(wanted, read, strict=True):
            if data is not None and len(data) != self._sizes.get(number):
                self._sizes[number], grown = len(data), True
                self._known |= {figures.batch_id: figures for figures in _lines(data)}
        if grown:
            newest = max(self._known, default=0)
            self._known = {each: self._known[each] for each in sorted(self._known) if each > newest - self._batches}
        return self._known


def _lines(data: bytes) -> list[BatchFigures]:
    """Return the figures in a file, as far as it can be read."""
    inflate, lines = zlib.decompressobj(wbits=31), list[bytes]()
    try:
        while data:
            lines.append(inflate.decompress(data))
            data = inflate.unused_data
            inflate = zlib.decompressobj(wbits=31)
    except zlib.error:
        pass
    return [BatchFigures.from_dict(json.loads(line)) for line in lines if line.endswith(b"\n")]
