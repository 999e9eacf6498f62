"""Messages that wait: first in, first out, in memory up to a budget and on disk beyond it."""

from __future__ import annotations

import struct
import tempfile
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO

from unskew.kafka.messages import Record

_HEAD = struct.Struct("<iqqiiI")
_HEADER = struct.Struct("<II")
_NONE = -1
OVERHEAD_BYTES = 200  # about what a record in memory costs beside its key, value and headers


class Spill:
    """Keeps held messages: `memory_bytes` in memory for all queues together, the rest in files in `directory`.

    The files are only a cache. Nothing that is held was committed, so after a crash it is read again from Kafka.

    >>> spill = Spill(memory_bytes=500)
    >>> queue = spill.queue()
    >>> for offset in range(3):
    ...     queue.append(Record(0, offset, b"key", b"x" * 100))
    >>> len(queue), queue.on_disk, [queue.popleft().offset for _ in range(3)]
    (3, 2, [0, 1, 2])
    """

    def __init__(self, memory_bytes: int = 64 << 20, directory: str | None = None) -> None:
        self.memory_bytes, self.directory = memory_bytes, directory
        self.used_bytes = 0

    def queue(self) -> HoldQueue:
        return HoldQueue(self)


class HoldQueue:
    """A queue of records; see `Spill`."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._memory: deque[Record] = deque()
        self._file: BinaryIO | None = None
        self._read_at = self._write_at = 0
        self.on_disk = 0

    def __len__(self) -> int:
        return len(self._memory) + self.on_disk

    def __iter__(self) -> Iterator[Record]:
        yield from self._memory
        if self._file is not None:
            self._file.seek(self._read_at)
            for _ in range(self.on_disk):
                yield unpack(self._file)

    def append(self, record: Record) -> None:
        size = _size(record)
        if self.on_disk == 0 and self._spill.used_bytes + size <= self._spill.memory_bytes:
            self._spill.used_bytes += size
            self._memory.append(record)
        else:
            self._write(record)

    def popleft(self) -> Record:
        if self._memory:
            record = self._memory.popleft()
            self._spill.used_bytes -= _size(record)
            return record
        return self._read()

    def close(self) -> None:
        self._spill.used_bytes -= sum(map(_size, self._memory))
        self._memory.clear()
        self._close_file()

    def _write(self, record: Record) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="unskew-hold-", dir=self._spill.directory)  # noqa: SIM115
            self._read_at = self._write_at = 0
        self._file.seek(self._write_at)
        self._file.write(pack(record))
        self._write_at = self._file.tell()
        self.on_disk += 1

    def _read(self) -> Record:
        assert self._file is not None
        self._file.seek(self._read_at)
        record = unpack(self._file)
        self._read_at = self._file.tell()
        self.on_disk -= 1
        if self.on_disk == 0:
            self._close_file()
        return record

    def _close_file(self) -> None:
        self.on_disk = 0
        if self._file is not None:
            self._file.close()
            self._file = None


def _size(record: Record) -> int:
    headers = sum(len(name) + len(value) for name, value in record.headers)
    return OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"") + headers


def pack(record: Record) -> bytes:
    """Return a record as bytes."""
    key, value = (_NONE if part is None else len(part) for part in (record.key, record.value))
    head = (record.partition, record.offset, record.timestamp_ms, key, value, len(record.headers))
    parts = [_HEAD.pack(*head), record.key or b"", record.value or b""]
    for name, content in record.headers:
        encoded = name.encode()
        parts += [_HEADER.pack(len(encoded), len(content)), encoded, content]
    return b"".join(parts)


def unpack(file: BinaryIO) -> Record:
    """Read the next record that `pack` wrote."""
    partition, offset, timestamp, key, value, headers = _HEAD.unpack(file.read(_HEAD.size))
    contents = [None if length == _NONE else file.read(length) for length in (key, value)]
    read = []
    for _ in range(headers):
        name, content = _HEADER.unpack(file.read(_HEADER.size))
        read.append((file.read(name).decode(), file.read(content)))
    return Record(partition, offset, contents[0], contents[1], tuple(read), timestamp)
