"""One balanced stage of a stream: which rows, by which key, through which operator, balanced how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from unskew.operators import Operator
from unskew.spark.controller import Controller
from unskew.spark.memory import memory_budgets
from unskew.spark.writer import BalancedWriter


@dataclass(frozen=True, eq=False)
class Stage:
    """A stream with an operator behind a router; `writeStream` starts it.

    Parameters
    ----------
    events
        The rows.
    operator
        What runs per key, bound to the rows' schema.
    output_schema
        What the operator returns, in Spark's words.
    channels, max_channels
        Channels used at first, and state partitions there are.
    limited
        Whether `max_channels` was asked for; else a checkpoint that has another number is continued with that.
    elastic
        Whether the number of channels follows the load.
    slots
        Slots of the routing table.
    controller
        Who decides.
    tracked_keys
        Keys that each channel reports one by one, at most.
    cache_bytes
        Budget of each executor's cache of state.
    shuffled
        Whether the order of the rows within a partition is not fixed.
    output_mode
        What the operator's rows mean: ``"update"``, or ``"append"`` where none replaces an earlier one.
    initial_state
        What per-key functions know before the first batch; see `unskew.spark.per_key.initial_state`.
    memory_bytes
        State that each channel may hold in its local copy; none: as much as there is room for.
    in_mode
        Makes the same stage in an output mode, where that is for `writeStream` to say.
    """

    events: DataFrame
    operator: Operator
    output_schema: StructType
    channels: int
    max_channels: int
    elastic: bool
    slots: int
    controller: Controller
    tracked_keys: int | None
    cache_bytes: int
    shuffled: bool
    output_mode: str = "update"
    initial_state: DataFrame | None = None
    memory_bytes: tuple[int, ...] = ()
    in_mode: Callable[[str], Stage] | None = None
    limited: bool = True

    def identity(self) -> dict[str, Any]:
        """Return what must not change between two starts from one checkpoint."""
        return {
            "key": list(self.operator.key),
            "operator": repr(self.operator),
            "max_channels": self.max_channels,
            "slots": self.slots,
        }

    def with_max_channels(self, limit: int) -> Stage:
        """Return the same stage with another number of state partitions; memory is given by channel again."""
        given = self.memory_bytes
        memory = memory_budgets(given[0] if len(set(given)) == 1 else given or None, limit)
        return replace(self, max_channels=limit, channels=min(self.channels, limit), memory_bytes=memory)

    @property
    def writeStream(self) -> BalancedWriter:  # noqa: N802
        """Say how to write the stream, then start it; has the methods of Spark's own `DataStreamWriter`."""
        return BalancedWriter(self)
