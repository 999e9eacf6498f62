"""One balanced stage of a stream: which rows, by which key, through which operator, balanced how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from unskew.operators import Operator
from unskew.runtime.settings import Settings
from unskew.spark.explain import explanation
from unskew.spark.writer import BalancedWriter


@dataclass(frozen=True, eq=False)
class Stage:
    """A stream with an operator; `writeStream` starts it.

    Parameters
    ----------
    events
        The rows, with the columns that the operator reads.
    key
        The key's columns in the stream.
    operator
        What runs per key, bound to the rows' schema.
    output_schema
        What the user gets, in Spark's words.
    settings
        How it is balanced.
    cores
        Tasks that the session can run at once.
    shuffled
        Whether the order of the rows within a partition is not fixed.
    output_mode
        What the rows mean: ``"update"``; ``"append"`` where none replaces an earlier one; ``"complete"`` where those of
        a batch replace all.
    initial_state
        What per-key functions know before the first batch; see `unskew.spark.per_key.initial_state`.
    in_mode
        Makes the same stage in an output mode, where that is for `writeStream` to say.
    default_mode
        The output mode if it says none.
    """

    events: DataFrame
    key: tuple[str, ...]
    operator: Operator
    output_schema: StructType
    settings: Settings
    cores: int
    shuffled: bool
    output_mode: str = "update"
    initial_state: DataFrame | None = None
    in_mode: Callable[[str], Stage] | None = None
    default_mode: str = "update"

    @property
    def writeStream(self) -> BalancedWriter:  # noqa: N802
        """Say how to write the stream, then start it; has the methods of Spark's own `DataStreamWriter`."""
        return BalancedWriter(self)

    def explain(self) -> None:
        """Print how batches will run, and Spark's plan of the rows."""
        print("== Balanced Stage ==", explanation(self.operator, self.settings), "", sep="\n")
        self.events.explain()
