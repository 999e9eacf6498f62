"""A job: everything that a balanced query needs to know, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unskew.errors import ArgumentError
from unskew.jobs.operators import make_operator, parse_aggregates
from unskew.jobs.places import FOLDERS, SINKS, SOURCES, Place, overlap, path_parts
from unskew.operators import Operator
from unskew.operators.aggregate import Aggregate
from unskew.planners import PLANNERS
from unskew.workloads import WORKLOADS

CHECKPOINT_FOLDER = "_unskew_checkpoint"


@dataclass(frozen=True, kw_only=True)
class Job:
    """Read a source, group by a key, run an operator, write to a sink.

    Examples
    --------
    >>> job = Job(source="parquet:clicks", key="user", aggregate="count", sink="parquet:out")
    >>> job.checkpoint_location, job.make_operator(), job.endless
    ('out/_unskew_checkpoint', Aggregate(count='count'), False)
    >>> Job(source="rate", key="value", aggregate="count", sink="console")
    Traceback (most recent call last):
    unskew.errors.ArgumentError: this source has no end, got 'rate' (in source). Hint: add --follow or --batches N.
    """

    source: str  # such as parquet:DIR; see `unskew.jobs.places`
    sink: str
    key: str  # columns, separated by commas
    aggregate: str | None = None  # what to keep per key, "count, sum(amount) as total"; or
    operator: str | None = None  # an operator by name,
    parameters: Mapping[str, Any] = field(default_factory=dict)  # with its parameters
    source_options: Mapping[str, Any] = field(
        default_factory=dict, repr=False
    )  # Spark's options, or those of a workload
    sink_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    schema: str | None = None  # the source's columns, unless inferred; for Kafka, of the JSON in `value`
    columns: Mapping[str, str] = field(default_factory=dict)  # new columns by name, each an expression in SQL
    where: str | None = None  # a condition in SQL that rows must meet
    watermark: str | None = None  # column and delay, "time 10 minutes"
    checkpoint: str | None = None  # where progress is kept; defaults to the sink's folder
    follow: bool = False  # go on as new rows arrive, until stopped
    every: str | None = None  # with `follow`, the time from one batch to the next, "5 seconds"
    batches: int | None = None  # end after this many
    channels: int | str | None = None  # this and the next five as in `unskew.balance`
    planner: str = "mixed"
    tolerance: float | None = None
    plan: str | None = None
    interval: int | str = 1
    max_move_bytes: int = 64 << 20
    master: str | None = None  # this and the next two for Spark's session, if none is running
    conf: Mapping[str, Any] = field(default_factory=dict, repr=False)
    packages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.from_place, self.to_place, self.key_columns, self.make_operator(), PLANNERS[self.planner]  # each may raise
        if self.from_place.kind == "workload":
            WORKLOADS[self.from_place.address]
        for role, place in (("source", self.from_place), ("sink", self.to_place)):
            if place.kind == "kafka":
                place.servers_and_topic(role)
        self._keep_source_readable()
        if self.endless and not (self.follow or self.batches):
            hint = "add --follow or --batches N"
            raise ArgumentError("this source has no end", where="source", got=self.source, hint=hint)
        if self.every is not None and not self.follow:
            raise ArgumentError("a time between batches works only with --follow", where="every", got=self.every)
        if self.batches is not None and self.batches < 1:
            raise ArgumentError("a job needs at least one batch", where="batches", got=self.batches)
        if self.channels == "auto" and self.every is None:
            what, hint = (
                "channels that follow the load need a time between batches",
                'add --follow --every "10 seconds"',
            )
            raise ArgumentError(what, where="channels", got="auto", hint=hint)

    def _keep_source_readable(self) -> None:
        """Refuse to write among the source's own files: nobody could read them together afterwards."""
        if self.from_place.kind not in FOLDERS:
            return
        source = self.from_place.address
        if self.to_place.kind in FOLDERS and overlap(source, self.to_place.address):
            raise ArgumentError(
                f"the sink and the source {self.source!r} share a folder",
                where="sink",
                got=self.sink,
                hint="write to a folder beside the source",
            )
        if self.checkpoint is None or not overlap(source, self.checkpoint):
            return
        depth = len(path_parts(source))
        below = path_parts(self.checkpoint)[depth - 1 :]
        if below and not any(name.startswith(("_", ".")) for name in below[1:]):  # Spark skips such folders
            raise ArgumentError(
                f"the checkpoint lies in the source {self.source!r}",
                where="checkpoint",
                got=self.checkpoint,
                hint="keep it in a folder of its own",
            )

    @property
    def from_place(self) -> Place:
        return Place.parse(self.source, "source", SOURCES)

    @property
    def to_place(self) -> Place:
        return Place.parse(self.sink, "sink", SINKS)

    @property
    def key_columns(self) -> tuple[str, ...]:
        names = tuple(name.strip() for name in self.key.split(","))
        if not all(names):
            raise ArgumentError("a column of the key is missing", where="key", got=self.key, hint="such as user, day")
        return names

    @property
    def endless(self) -> bool:
        """Whether the source never runs dry."""
        bounded = any(name.lower() == "batches" for name in self.source_options)
        return self.from_place.kind == "rate" or (self.from_place.kind == "workload" and not bounded)

    @property
    def checkpoint_location(self) -> str | None:
        """Where progress is kept; None if it does not last."""
        if self.checkpoint is not None or self.to_place.kind not in FOLDERS:
            return self.checkpoint
        return f"{self.to_place.address.rstrip('/')}/{CHECKPOINT_FOLDER}"

    def make_operator(self) -> Operator:
        """Return the operator, not bound to its input yet."""
        if (self.aggregate is None) == (self.operator is None):
            raise ArgumentError(
                "say what to do per key: an aggregate or an operator, one of the two",
                where="aggregate, operator",
                got=None if self.aggregate is None else (self.aggregate, self.operator),
                hint='such as --aggregate "count, sum(amount)"',
            )
        if self.operator is not None:
            return make_operator(self.operator, self.parameters)
        if self.parameters:
            raise ArgumentError("only an operator has parameters", where="with", got=dict(self.parameters))
        return Aggregate(**parse_aggregates(self.aggregate or ""))
