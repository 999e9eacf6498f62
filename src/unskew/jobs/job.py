"""A job: everything that a balanced query needs to know, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unskew.errors import ArgumentError
from unskew.jobs.aggregates import parse_aggregates
from unskew.jobs.operators import make_operator
from unskew.jobs.places import FOLDERS, SINKS, SOURCES, Place
from unskew.operators import Operator
from unskew.operators.aggregate import Aggregate

ENDLESS = ("rate", "workload")
CHECKPOINT_FOLDER = "_unskew_checkpoint"


@dataclass(frozen=True, kw_only=True)
class Job:
    """Read a source, group by a key, run an operator, write to a sink.

    Parameters
    ----------
    source, sink
        Where rows come from and go to, such as ``parquet:DIR``; see `unskew.jobs.places`.
    key
        The key's columns, separated by commas.
    aggregate
        What to keep per key, ``"count, sum(amount) as total"``; or
    operator, parameters
        an operator by name, and its parameters.
    source_options, sink_options
        Spark's options of the two; those of a workload are the source's.
    schema
        Columns of the source in words, where they are not to be inferred; for Kafka, of the JSON in ``value``.
    columns
        New columns by name, each an expression in SQL.
    where
        A condition in SQL that rows must meet.
    watermark
        Column and delay, ``"time 10 minutes"``.
    checkpoint
        Where the job's progress is kept. By default in the sink's folder, so that the job goes on where it
        ended; without a folder, nowhere.
    follow
        Whether to go on as new rows arrive, until stopped; else the job ends with what is there.
    every
        With `follow`, the time from one batch to the next, ``"5 seconds"``.
    batches
        Ends after so many batches.
    channels, planner, tolerance, plan, interval, max_move_bytes
        As in `unskew.balance`.
    master, conf, packages
        Of Spark's session, if none is running: its master, its settings, and packages to fetch for it.

    Examples
    --------
    >>> job = Job(source="parquet:clicks", key="user", aggregate="count", sink="parquet:out")
    >>> job.checkpoint_location, job.make_operator(), job.endless
    ('out/_unskew_checkpoint', Aggregate(count='count'), False)
    >>> Job(source="rate", key="value", aggregate="count", sink="console")
    Traceback (most recent call last):
    unskew.errors.ArgumentError: this source has no end, got 'rate' (in source). Hint: add --follow or --batches N.
    """

    source: str
    sink: str
    key: str
    aggregate: str | None = None
    operator: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    source_options: Mapping[str, Any] = field(default_factory=dict)
    sink_options: Mapping[str, Any] = field(default_factory=dict)
    schema: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    watermark: str | None = None
    checkpoint: str | None = None
    follow: bool = False
    every: str | None = None
    batches: int | None = None
    channels: int | str | None = None
    planner: str = "mixed"
    tolerance: float | None = None
    plan: str | None = None
    interval: int | str = 1
    max_move_bytes: int = 64 << 20
    master: str | None = None
    conf: Mapping[str, Any] = field(default_factory=dict)
    packages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.from_place, self.to_place, self.key_columns, self.make_operator()  # each raises if it is wrong
        if self.endless and not (self.follow or self.batches):
            raise ArgumentError(
                "this source has no end", where="source", got=self.source, hint="add --follow or --batches N"
            )
        if self.every is not None and not self.follow:
            raise ArgumentError(
                "a time between batches needs follow", where="every", got=self.every, hint="add --follow"
            )
        if self.batches is not None and self.batches < 1:
            raise ArgumentError("a job has at least one batch", where="batches", got=self.batches)
        if self.channels == "auto" and self.every is None:
            raise ArgumentError(
                "channels that follow the load need an interval to keep to", where="channels", got="auto",
                hint='add --follow --every "10 seconds"',
            )  # fmt: skip

    @property
    def from_place(self) -> Place:
        """Where rows come from."""
        return Place.parse(self.source, "source", SOURCES)

    @property
    def to_place(self) -> Place:
        """Where rows go to."""
        return Place.parse(self.sink, "sink", SINKS)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The key's columns."""
        names = tuple(name.strip() for name in self.key.split(","))
        if not all(names):
            raise ArgumentError("a column of the key is missing", where="key", got=self.key, hint="such as user, day")
        return names

    @property
    def endless(self) -> bool:
        """Whether the source never runs dry."""
        kind = self.from_place.kind
        bounded = kind == "workload" and any(name.lower() == "batches" for name in self.source_options)
        return kind in ENDLESS and not bounded

    @property
    def checkpoint_location(self) -> str | None:
        """Where progress is kept; None: nowhere that lasts."""
        if self.checkpoint is not None or self.to_place.kind not in FOLDERS:
            return self.checkpoint
        return f"{self.to_place.address.rstrip('/')}/{CHECKPOINT_FOLDER}"

    def make_operator(self) -> Operator:
        """Return the operator, not bound to its input yet."""
        if (self.aggregate is None) == (self.operator is None):
            raise ArgumentError(
                "say what shall be done per key: an aggregate or an operator, one of the two",
                where="aggregate, operator",
                got=None if self.aggregate is None else (self.aggregate, self.operator),
                hint='such as --aggregate "count, sum(amount)"',
            )
        if self.operator is not None:
            return make_operator(self.operator, self.parameters)
        if self.parameters:
            raise ArgumentError("parameters are for an operator", where="with", got=dict(self.parameters))
        return Aggregate(**parse_aggregates(self.aggregate or ""))
