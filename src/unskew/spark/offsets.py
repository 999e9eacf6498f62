"""Spark's own logs in a checkpoint: the offsets and the watermark of each batch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from unskew.errors import CheckpointError

TICK_KEY = "unskew_tick"  # the only field of the tick's offsets; no other source has it
LOG_VERSIONS = ("v1", "v2")
NO_OFFSET = "-"

T = TypeVar("T")


class FileReader(Protocol):
    """Files below a folder, by names relative to it."""

    def read_or_none(self, name: str) -> bytes | None: ...

    def names(self, folder: str) -> list[str]: ...


class LocalFiles:
    """Files below a folder of this machine. Needs only the standard library, so it is quick to import."""

    def __init__(self, place: str) -> None:
        self.place = Path(place.removeprefix("file://").removeprefix("file:"))

    def read_or_none(self, name: str) -> bytes | None:
        try:
            return (self.place / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(path.name for path in (self.place / folder).iterdir())
        except FileNotFoundError:
            return []


@dataclass(frozen=True)
class BatchFacts:
    """What Spark wrote down about a batch before it ran. A batch that runs again has the same facts.

    Another fingerprint under the same number means another checkpoint, or one that was rolled back.
    """

    batch_id: int
    fingerprint: str  # hash of the query's id and of all that Spark wrote about the batch
    watermark_ms: int  # 0 if there is none yet
    time_ms: int
    sources: tuple[str, ...]  # last offset of each source, "-" for none: in plan order, or sorted as "name:offset"


def read_facts(files: FileReader, batch_id: int) -> BatchFacts:
    """Read ``offsets/<batch_id>`` and ``metadata`` of a checkpoint; `CheckpointError` if they are not understood."""
    name = f"offsets/{batch_id}"
    text = _read(files, name)
    version, header, sources = _log(text, name)
    query = _field(_object(_read(files, "metadata"), "metadata"), "id", str, "metadata")
    return BatchFacts(
        batch_id,
        sha256(f"{query}\n{text}".encode()).hexdigest(),
        _field(header, "batchWatermarkMs", int, name),
        _field(header, "batchTimestampMs", int, name),
        tuple(sources if version == "v1" else sorted(sources)),
    )


def watermark_ms(files: FileReader, batch_id: int) -> int:
    """Return the watermark that a batch ran with."""
    return _number(files, f"offsets/{batch_id}", "batchWatermarkMs")


def next_watermark_ms(files: FileReader, batch_id: int) -> int:
    """Return the watermark of the batch that follows a committed one."""
    return _number(files, f"commits/{batch_id}", "nextBatchWatermarkMs")


def setting(files: FileReader, batch_id: int, name: str) -> str | None:
    """Return a setting of the session that Spark keeps for all runs of a query; None if it does not keep it."""
    header = _log(_read(files, f"offsets/{batch_id}"), f"offsets/{batch_id}")[1]
    found = _field(header, "conf", dict, f"offsets/{batch_id}").get(name)
    return None if found is None else str(found)


def last_committed(files: FileReader) -> int:
    """Return the last batch that Spark has committed, -1 if there is none."""
    return max((int(name) for name in files.names("commits") if name.isdecimal()), default=-1)


def find_tick(facts: BatchFacts) -> int:
    """Return which of a batch's sources is the tick."""
    found = [index for index, source in enumerate(facts.sources) if f'"{TICK_KEY}"' in source]
    if len(found) != 1:
        raise CheckpointError(
            f"the batch has {len(found)} ticks of unskew among its sources instead of one",
            where=f"offsets/{facts.batch_id}",
            got=facts.sources,
            hint="was the checkpoint made by a query without unskew? A balanced query needs a checkpoint of its own",
        )
    return found[0]


def tick_offset(files: FileReader, batch_id: int) -> dict[str, int]:
    """Return where the tick stands in a batch; 0 in a batch that Spark knows nothing of."""
    if files.read_or_none(f"offsets/{batch_id}") is None:
        return {TICK_KEY: 0}
    facts = read_facts(files, batch_id)
    return cast(dict[str, int], _object(facts.sources[find_tick(facts)], f"offsets/{batch_id}"))


def only_tick_advanced(before: BatchFacts | None, now: BatchFacts, tick_index: int) -> bool:
    """Tell that no source but the tick has new offsets in a batch, so it has no rows. `before` is None for batch 0."""
    earlier = before.sources if before else (NO_OFFSET,) * len(now.sources)
    if len(earlier) != len(now.sources):
        raise CheckpointError(
            f"there are {len(now.sources)} sources, and {len(earlier)} in the batch before",
            where=f"offsets/{now.batch_id}",
            hint="a stream was added to the query, or removed; start it with a new checkpoint",
        )
    pairs = zip(earlier, now.sources, strict=True)
    return all(old == new for index, (old, new) in enumerate(pairs) if index != tick_index % len(earlier))


def _number(files: FileReader, name: str, field: str) -> int:
    return _field(_log(_read(files, name), name)[1], field, int, name)


def _read(files: FileReader, name: str) -> str:
    data = files.read_or_none(name)
    if data is None:
        hint = "is this the checkpoint of the query, and has nobody removed files from it?"
        raise CheckpointError("a file that Spark writes is missing", where=name, hint=hint)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CheckpointError("a file that Spark writes is not text", where=name, got=data[:40]) from error


def _log(text: str, name: str) -> tuple[str, dict[str, Any], list[str]]:
    """Return the version of a log's file, its metadata, and the lines after them."""
    version, *lines = text.split("\n")
    if version not in LOG_VERSIONS:
        hint = f"this unskew knows {' and '.join(LOG_VERSIONS)}; did a newer Spark write it?"
        raise CheckpointError(
            "a file that Spark writes has an unknown version", where=name, got=version[:40], hint=hint
        )
    if not lines:
        raise CheckpointError("a file that Spark writes ends too soon", where=name, got=text)
    return version, _object(lines[0], name), lines[1:]


def _object(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CheckpointError("a file that Spark writes is not JSON", where=name, got=text[:40]) from error
    if not isinstance(value, dict):
        raise CheckpointError("a file that Spark writes holds no JSON object", where=name, got=text[:40])
    return value


def _field(values: dict[str, Any], field: str, kind: type[T], name: str) -> T:
    value = values.get(field)
    if not isinstance(value, kind):
        raise CheckpointError(f"a file that Spark writes has no valid {field}", where=name, got=value)
    return value
