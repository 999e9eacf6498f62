"""The one way to store a frozen dataclass: `dump` gives bytes, `load` gives the value back.

The bytes are ``UNSKEW``, the version of the codec, a checksum, the length of the body, and the body under zstd. The
body is a JSON header followed by what JSON cannot hold: bytes, arrays and Arrow tables, each aligned to 64 bytes.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import zlib
from itertools import accumulate
from typing import Any, TypeVar, cast

import pyarrow as pa

from unskew.codec_kinds import Sections, Source, record_kind
from unskew.errors import ArgumentError, FormatError

T = TypeVar("T")

VERSION = 1
MAGIC = b"UNSKEW"
PROLOGUE = struct.Struct("<6sHIQ")  # magic, version, checksum, length of the body
CHECKED_FROM = 12  # the checksum covers the length of the body, and the body
HEAD = struct.Struct("<I")
ALIGNMENT = 64
DAMAGED = "the bytes are damaged or incomplete; restore them from a copy"


def dump(value: object) -> bytes:
    """Return a dataclass as bytes. Equal values give equal bytes, as long as their mappings keep their order.

    Type hints say how each field is written. A field may be a number, a string, a boolean, None, bytes, an enum, a
    literal, a numpy array, an Arrow table or array, another dataclass, or a tuple, list or mapping of these. The keys
    of a mapping are integers or strings. ``Any`` stands for JSON values. A union has None and one other member, or only
    scalars, or only dataclasses. Fields with ``init=False`` are left out. Anything else raises an `ArgumentError` that
    names the field.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Note:
    ...     text: str
    ...     scores: tuple[float, ...] = ()
    >>> load(Note, dump(Note("hot", (1.5, float("inf")))))
    Note(text='hot', scores=(1.5, inf))
    >>> dump(Note("hot", (1.5, "high")))
    Traceback (most recent call last):
    unskew.errors.ArgumentError: the value is not a number, got 'high' (in Note.scores[1]).
    """
    cls = type(value)
    if not dataclasses.is_dataclass(cls):
        raise ArgumentError("only an instance of a dataclass can be dumped", got=value)
    sections: Sections = []
    written = record_kind(cls).write(value, sections, cls.__name__)
    body = _body({"class": cls.__name__, "value": written}, sections)
    packed = pa.compress(body, codec="zstd", asbytes=True)
    checksum = zlib.crc32(packed, zlib.crc32(len(body).to_bytes(8, "little")))
    return cast(bytes, PROLOGUE.pack(MAGIC, VERSION, checksum, len(body)) + packed)


def load(cls: type[T], data: bytes | pa.Buffer, where: str = "") -> T:
    """Return the value that `dump` wrote; `where` is the name that errors use for the bytes, such as a path.

    A field that the bytes lack takes its default. Arrays are copies; Arrow tables keep the unpacked bytes in memory.
    Bytes that are damaged, hold something else, or come from a newer unskew raise `FormatError`.
    """
    place = where or None
    try:
        body = _unpacked(memoryview(data).cast("B"), place)
        (length,) = HEAD.unpack_from(body)
        head = json.loads(bytes(body[HEAD.size : HEAD.size + length]))
        if head["class"] != cls.__name__:
            raise FormatError(f"the bytes hold a {head['class']}, not a {cls.__name__}", where=place)
        source = Source(_sections(body, HEAD.size + length, head["sections"]), place)
        return cast(T, record_kind(cast(Any, cls)).read(head["value"], source, cls.__name__))
    except FormatError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError, OSError, struct.error, pa.ArrowException) as error:
        raise FormatError(
            f"the bytes do not hold a valid {cls.__name__}: {error}", where=place, hint=DAMAGED
        ) from error


def _body(head: dict[str, Any], sections: Sections) -> bytes:
    lengths = [memoryview(section).nbytes for section in sections]
    text = json.dumps({**head, "sections": lengths}, separators=(",", ":")).encode()
    parts = [HEAD.pack(len(text)), text, _padding(HEAD.size + len(text))]
    for section, length in zip(sections, lengths, strict=True):
        parts += [section, _padding(length)]
    return b"".join(parts)


def _sections(body: pa.Buffer, head: int, lengths: list[int]) -> list[pa.Buffer]:
    starts = accumulate(length + len(_padding(length)) for length in [head, *lengths])
    return [body.slice(start, length) for start, length in zip(starts, lengths, strict=False)]


def _padding(length: int) -> bytes:
    return bytes(-length % ALIGNMENT)


def _unpacked(data: memoryview, where: str | None) -> pa.Buffer:
    if len(data) < PROLOGUE.size or data[: len(MAGIC)] != MAGIC:
        raise FormatError("these bytes were not written by unskew", where=where, hint=DAMAGED)
    _, version, checksum, length = PROLOGUE.unpack_from(data)
    if version != VERSION:
        raise FormatError(
            f"the codec of these bytes is not version {VERSION}",
            where=where,
            got=version,
            hint="they are damaged, or written by a newer unskew: install the version that wrote them",
        )
    if zlib.crc32(data[CHECKED_FROM:]) != checksum:
        raise FormatError("the bytes do not match their checksum", where=where, hint=DAMAGED)
    return pa.decompress(data[PROLOGUE.size :], length, codec="zstd")
