"""Where rows come from and go to, in one word: ``parquet:DIR``, ``kafka:SERVERS/TOPIC``, ``rate``."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from unskew.errors import ArgumentError

FILES = ("parquet", "csv", "json", "orc")
FOLDERS = (*FILES, "delta")
SOURCES = (*FILES, "kafka", "workload", "rate")
SINKS = (*FOLDERS, "kafka", "console")
WITHOUT_ADDRESS = ("rate", "console")
EXAMPLES = {
    **{kind: f"{kind}:DIR" for kind in FOLDERS},
    **{kind: kind for kind in WITHOUT_ADDRESS},
    "kafka": "kafka:HOST:9092/TOPIC",
    "workload": "workload:zipf",
}


@dataclass(frozen=True)
class Place:
    """A kind of source or sink and its address.

    Examples
    --------
    >>> Place.parse("parquet:s3a://bucket/clicks", "source", SOURCES)
    Place(kind='parquet', address='s3a://bucket/clicks')
    >>> Place.parse("kafka:a:9092,b:9092/clicks", "source", SOURCES).servers_and_topic("source")
    ('a:9092,b:9092', 'clicks')
    >>> Place.parse("parket:x", "source", SOURCES)
    Traceback (most recent call last):
    unskew.errors.ArgumentError: there is no such source, got 'parket' (in source). Hint: did you mean parquet:DIR.
    """

    kind: str
    address: str

    @classmethod
    def parse(cls, text: str, role: str, kinds: Collection[str]) -> Place:
        """Read ``KIND:ADDRESS``; errors call it by its `role`."""
        kind, _, address = text.partition(":")
        if kind not in kinds:
            hint = did_you_mean(kind, kinds, EXAMPLES)
            raise ArgumentError(f"there is no such {role}", where=role, got=kind, hint=hint)
        if kind in WITHOUT_ADDRESS and address:
            raise ArgumentError(f"{kind} takes no address", where=role, got=text, hint=kind)
        if kind not in WITHOUT_ADDRESS and not address:
            raise ArgumentError(f"a {role} of this kind needs an address", where=role, got=text, hint=EXAMPLES[kind])
        return cls(kind, address)

    def servers_and_topic(self, role: str) -> tuple[str, str]:
        """Return the two parts of a Kafka address."""
        servers, slash, topic = self.address.rpartition("/")
        if not (slash and servers and topic):
            raise ArgumentError("a topic of Kafka is SERVERS/TOPIC", where=role, got=str(self), hint=EXAMPLES["kafka"])
        return servers, topic

    def __str__(self) -> str:
        return f"{self.kind}:{self.address}" if self.address else self.kind


def local_path(address: str) -> Path | None:
    """Return a folder's path on this machine; None if the address names another filesystem."""
    scheme, colon, rest = address.partition(":")
    if not colon or "/" in scheme:
        return Path(address)
    return Path("/" + rest.lstrip("/")) if scheme == "file" else None


def path_parts(address: str) -> tuple[str, ...]:
    """Return the steps to a folder, from the root of its filesystem."""
    path = local_path(address)
    if path is not None:
        return path.resolve().parts
    scheme, _, rest = address.partition(":")
    return ("s3" if scheme in ("s3a", "s3n") else scheme, *filter(None, posixpath.normpath(rest).split("/")))


def overlap(source: str, folder: str) -> bool:
    """Tell whether two folders are the same or one lies in the other; the source may be a pattern.

    >>> overlap("clicks", "clicks/out"), overlap("in/clicks", "in"), overlap("in/{a,b}", "in/a")
    (True, True, True)
    >>> overlap("in/2024-*", "in/out"), overlap("in/*/clicks", "in/out")
    (False, False)
    """
    wanted, parts = path_parts(source), path_parts(folder)
    if len(parts) < len(wanted) and any(set("*?[{") & set(part) for part in wanted[: len(parts)]):
        return False  # the pattern reads deeper folders, which the sink does not write
    return all(
        any(fnmatchcase(name, each) for each in _alternatives(part)) for part, name in zip(wanted, parts, strict=False)
    )


def _alternatives(pattern: str) -> list[str]:
    """Return the patterns that one with braces stands for."""
    braces = re.search(r"\{([^{}]*)\}", pattern)
    if braces is None:
        return [pattern]
    before, after = pattern[: braces.start()], pattern[braces.end() :]
    return [each for middle in braces[1].split(",") for each in _alternatives(f"{before}{middle}{after}")]


def did_you_mean(name: str, known: Collection[str], shown: dict[str, str] | None = None) -> str:
    """Return a hint: the known name that is nearest, or else all of them, spelled as in `shown`."""
    names = shown or {each: repr(each) for each in known}
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {names[near[0]]}" if near else f"one of {', '.join(names[each] for each in known)}"
