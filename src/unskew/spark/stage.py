"""One balanced stage of a stream: which rows, by which key, through which operator, balanced how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError
from unskew.operators import Clock, Operator
from unskew.runtime.settings import Settings
from unskew.spark.initial_state import Beginning, beginning_with
from unskew.spark.writer import BalancedWriter


@dataclass(frozen=True, eq=False)
class Stage:
    """A stream with an operator; `writeStream` starts it."""

    events: DataFrame  # with the columns that the operator reads
    key: tuple[str, ...]
    operator: Operator  # bound to the schema of the rows
    output_schema: StructType
    settings: Settings
    cores: int  # tasks that the session can run at once
    shuffled: bool  # whether the order of rows within a partition may change from run to run
    output_mode: str = "update"
    beginning: Beginning | None = None  # what is known before the first batch
    in_mode: Callable[[str], Stage] | None = None  # makes the stage in another mode, if writeStream may choose one
    default_mode: str = "update"  # the mode if writeStream names none

    def continue_from(self, state: DataFrame) -> Stage:
        """Begin with what another query knew of its keys: ``continue_from(unskew.state_of(spark, checkpoint))``.

        The rows are then those that the other query would have given, had it gone on. The first batch of a new
        checkpoint uses the state; later batches ignore it.

        Parameters
        ----------
        state
            What `unskew.state_of` gives of a query of Spark alone or `unskew.read_state` of a balanced one, or any
            table of that form with every key once. Its operator must be the same: the same per-key function or state
            schema, the same state variables, or the same aggregates in the same order. If the table remembers the
            watermark of the other query, event time goes on from there.
        """
        if self.beginning is not None:
            raise ArgumentError("this stage has a state to begin with already", hint="leave one out")
        if self.operator.learns or self.settings.splitting.scheme is not None:
            raise ArgumentError(
                "a query that learns, or whose keys are split, cannot begin with state",
                got=self.operator,
                hint="leave split= out at the first start, and add it at the next one",
            )
        return replace(self, beginning=beginning_with(state, self.operator))

    @property
    def writeStream(self) -> BalancedWriter:  # noqa: N802
        """Say how to write the stream, then start it. It has the methods of Spark's `DataStreamWriter`."""
        return BalancedWriter(self)

    def explain(self) -> None:
        """Print how batches will run, and Spark's plan of the rows."""
        print("== Balanced Stage ==", *self._explanation(), "", sep="\n")
        self.events.explain()

    def _explanation(self) -> list[str]:
        operator, channels = self.operator, self.settings.channels
        planning, splitting = self.settings.planning, self.settings.splitting
        lines = [f"{operator!r} by {', '.join(operator.key)}", f"{channels.count} channels, {channels.slots} slots"]
        presum = operator.presum(Clock(0, 0)) if planning.presum and not splitting.by_tuple else None
        if presum is not None:
            return [
                *lines,
                f"Spark combines the rows of a key: {', '.join(presum.states)}",
                "Channels get one row per key, so nothing has to be planned.",
            ]
        lines.append("Python combines the rows of a key." if operator.mergeable else "Channels get every row.")
        if splitting.scheme is not None:
            lines.append(f"Rows go to workers by {splitting.scheme!r}.")
        elif planning.when == "own":
            lines.append(f"Every batch is counted and planned by {planning.planner!r}, where that can pay.")
        else:
            lines.append(f"Every batch is planned ahead by {planning.planner!r}, from what came before.")
        return lines
