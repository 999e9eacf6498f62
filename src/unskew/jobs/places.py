"""Where rows come from and go to, in one word: ``parquet:DIR``, ``kafka:SERVERS/TOPIC``, ``rate``."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass

from unskew.errors import ArgumentError

FOLDERS = ("parquet", "csv", "json", "orc")
SOURCES = (*FOLDERS, "kafka", "workload", "rate")
SINKS = (*FOLDERS, "kafka", "console")

EXAMPLES = {
    **{kind: f"{kind}:DIR" for kind in FOLDERS},
    "kafka": "kafka:HOST:9092/TOPIC",
    "workload": "workload:zipf",
    "rate": "rate",
    "console": "console",
}
WITHOUT_ADDRESS = ("rate", "console")


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
        """Read ``KIND:ADDRESS``; `role` is what it is called in errors."""
        kind, _, address = text.partition(":")
        if kind not in kinds:
            near = difflib.get_close_matches(kind, kinds, n=1, cutoff=0.5)
            hint = f"did you mean {EXAMPLES[near[0]]}" if near else f"one of {', '.join(EXAMPLES[k] for k in kinds)}"
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
