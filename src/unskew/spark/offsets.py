"""Spark's own logs in a checkpoint: which offsets and which watermark a batch has, and which comes next."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar

from unskew.errors import CheckpointError

TICK_KEY = "unskew_tick"  # the only field of the tick's offsets, by which it is told from other sources
LOG_VERSIONS = ("v1", "v2")
NO_OFFSET = "-"

T = TypeVar("T")


class FileReader(Protocol):
    """Files below a folder, read by names relative to it."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        ...

    def read_or_none(self, name: str) -> bytes | None:
        """Return the content of a file, None if there is no such file."""
        ...

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, none if there is no such folder."""
        ...


class LocalFiles:
    """Files below a folder of this machine. Needs nothing but the standard library, so that it is quick to import."""

    def __init__(self, place: str) -> None:
        self.place = Path(place.removeprefix("file://").removeprefix("file:"))

    def read(self, name: str) -> bytes:
        return (self.place / name).read_bytes()

    def read_or_none(self, name: str) -> bytes | None:
        try:
            return self.read(name)
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(path.name for path in (self.place / folder).iterdir())
        except FileNotFoundError:
            return []


@dataclass(frozen=True)
class BatchFacts:
    """What Spark wrote down about a batch before it ran; a batch that runs again has the same.

    Parameters
    ----------
    batch_id
        The batch.
    fingerprint
        A hash of the query's id and of all that Spark wrote about the batch. Another one under the same number means
        another checkpoint, or one that was rolled back.
    watermark_ms
        The watermark of the batch, by which state expires. 0 where there is none yet.
    time_ms
        The batch's time of the clock.
    sources
        The last offset of each source, as the source writes it, ``"-"`` for one without. In the order of the plan, or,
        where Spark's log has names for the sources, in the order of names and with the name in front: ``name:offset``.
    """

    batch_id: int
    fingerprint: str
    watermark_ms: int
    time_ms: int
    sources: tuple[str, ...]


def read_facts(files: FileReader, batch_id: int) -> BatchFacts:
    """Read what Spark wrote down about a batch: ``offsets/<batch_id>`` and ``metadata`` of its checkpoint.

    Raises
    ------
    CheckpointError
        A file is missing or not understood.
    """
    name = f"offsets/{batch_id}"
    data = _read(files, name)
    query = _field(_object(_text(_read(files, "metadata"), "metadata"), "metadata"), "id", str, "metadata")
    version, header, *sources = _lines(data, name)
    metadata = _object(header, name)
    return BatchFacts(
        batch_id,
        sha256(query.encode() + b"\n" + data).hexdigest(),
        _field(metadata, "batchWatermarkMs", int, name),
        _field(metadata, "batchTimestampMs", int, name),
        tuple(sources if version == "v1" else sorted(sources)),
    )


def watermark_ms(files: FileReader, batch_id: int) -> int:
    """Return the watermark that a batch ran with, from ``offsets/<batch_id>``."""
    name = f"offsets/{batch_id}"
    return _field(_object(_lines(_read(files, name), name)[1], name), "batchWatermarkMs", int, name)


def next_watermark_ms(files: FileReader, batch_id: int) -> int:
    """Return the watermark of the batch after a committed one, from ``commits/<batch_id>``."""
    name = f"commits/{batch_id}"
    return _field(_object(_lines(_read(files, name), name)[1], name), "nextBatchWatermarkMs", int, name)


def last_committed(files: FileReader) -> int:
    """Return the last batch that Spark has committed, -1 if there is none."""
    return max((int(name) for name in files.names("commits") if name.isdecimal()), default=-1)


def find_tick(facts: BatchFacts) -> int:
    """Return which of a batch's sources is the tick."""
    found = [index for index, source in enumerate(facts.sources) if f'"{TICK_KEY}"' in source]
    if len(found) != 1:
        raise CheckpointError(
            f"one source should be unskew's tick, {len(found)} are",
            where=f"offsets/{facts.batch_id}",
            got=facts.sources,
            hint="was the checkpoint made by a query without unskew? It needs a checkpoint of its own",
        )
    return found[0]


def only_tick_advanced(before: BatchFacts | None, now: BatchFacts, tick_index: int) -> bool:
    """Tell that no source but the tick has new offsets in a batch, so that it has no rows.

    Parameters
    ----------
    before
        The batch before, None for the first one.
    now
        The batch in question.
    tick_index
        Which of the sources is the tick; see `find_tick`.
    """
    earlier = before.sources if before else (NO_OFFSET,) * len(now.sources)
    if len(earlier) != len(now.sources):
        raise CheckpointError(
            f"there are {len(now.sources)} sources, and {len(earlier)} in the batch before",
            where=f"offsets/{now.batch_id}",
            hint="a stream was added to the query, or removed; start it with a new checkpoint",
        )
    pairs = zip(earlier, now.sources, strict=True)
    return all(old == new for index, (old, new) in enumerate(pairs) if index != tick_index % len(earlier))


def _read(files: FileReader, name: str) -> bytes:
    data = files.read_or_none(name)
    if data is None:
        hint = "is this the checkpoint of the query, and has nobody removed files from it?"
        raise CheckpointError("a file of Spark's is missing", where=name, hint=hint)
    return data


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CheckpointError("a file of Spark's is not text", where=name, got=data[:40]) from error


def _lines(data: bytes, name: str) -> list[str]:
    """Return the lines of a log's file: version, metadata, and what else there is."""
    lines = _text(data, name).split("\n")
    if lines[0] not in LOG_VERSIONS:
        hint = f"this unskew knows {' and '.join(LOG_VERSIONS)}; was it written by a newer Spark?"
        raise CheckpointError("a file of Spark's has an unknown version", where=name, got=lines[0][:40], hint=hint)
    if len(lines) < 2:
        raise CheckpointError("a file of Spark's ends too soon", where=name, got=lines)
    return lines


def _object(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CheckpointError("a file of Spark's is not JSON", where=name, got=text[:40]) from error
    if not isinstance(value, dict):
        raise CheckpointError("a file of Spark's holds no JSON object", where=name, got=text[:40])
    return value


def _field(values: dict[str, Any], field: str, kind: type[T], name: str) -> T:
    value = values.get(field)
    if not isinstance(value, kind):
        raise CheckpointError(f"a file of Spark's has no valid {field}", where=name, got=value)
    return value
