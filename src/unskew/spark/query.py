"""A running balanced query: Spark's `StreamingQuery`, and what unskew knows beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming.query import StreamingQuery

from unskew.errors import ArgumentError
from unskew.planners.report import Report
from unskew.routing.moves import Move
from unskew.routing.table import RoutingTable
from unskew.spark.runtime import Runtime


class BalancedQuery:
    """Behaves like the `StreamingQuery` it wraps; also tells the routing table, the loads and the moves.

    Everything not listed here (``awaitTermination``, ``stop``, ``recentProgress``, ``status``, ...) is Spark's own.
    """

    def __init__(self, query: StreamingQuery, runtime: Runtime, max_channels: int) -> None:
        self._query, self._runtime, self.max_channels = query, runtime, max_channels

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    def resize(self, channels: int) -> None:
        """Use another number of channels, from 1 to `max_channels`, while the query runs.

        Returns at once. The planner plans for the new number when the running batch ends; state moves with the batch
        after that (several, if it is more than may move in one), and then rows follow it. What is not yet planned when
        the query ends is forgotten; what is planned is carried on after a restart.
        """
        if not 1 <= channels <= self.max_channels:
            raise ArgumentError(
                f"this query may use 1 to {self.max_channels} channels",
                got=channels,
                hint="max_channels is chosen when a checkpoint is begun: balance(..., max_channels=...)",
            )
        self._runtime.resize(channels)

    @property
    def routing_table(self) -> RoutingTable:
        """The table of the batch that runs next."""
        return self._runtime.decision.table

    @property
    def loads(self) -> pa.Table:
        """The last batch, one row per channel: rows, seconds in the operator, keys and bytes held."""
        reports = self._runtime.reports
        channels = sorted(reports)
        columns = {
            name: [getattr(reports[c], name) for c in channels]
            for name in ("rows", "late_rows", "seconds", "state_rows", "state_bytes")
        }
        return pa.table({"channel": np.array(channels, np.int32), **columns})

    @property
    def moves(self) -> list[tuple[int, Move]]:
        """The last moves, each with the batch at whose end the state left its old channel."""
        return [(batch_id, move) for batch_id, moves in self._runtime.moves for move in moves]

    @property
    def plans(self) -> list[tuple[int, Report]]:
        """The last plans, each with the batch after which it was made."""
        return self._runtime.plans
