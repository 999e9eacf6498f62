"""A running balanced query: Spark's `StreamingQuery`, and what unskew knows beside it."""

from __future__ import annotations

from collections.abc import Sequence
from http.server import ThreadingHTTPServer
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from unskew.errors import ArgumentError
from unskew.planners.report import Report
from unskew.routing.moves import Move
from unskew.routing.table import RoutingTable
from unskew.spark.figures import BatchFigures
from unskew.spark.memory import memory_budgets
from unskew.spark.progress import QueryListener, with_figures
from unskew.spark.prometheus import prometheus_text, serve
from unskew.spark.runtime import Runtime


class BalancedQuery:
    """Behaves like the `StreamingQuery` it wraps; also tells the routing table, the loads and the moves.

    Everything not listed here (``awaitTermination``, ``stop``, ``status``, ...) is Spark's own.
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

    def limit_memory(self, memory_bytes: int | Sequence[int] | None) -> None:
        """Change how much of its state each channel may hold, from the batch after the running one on.

        One number for all, one for each of `max_channels`, or None for no limit. The next start goes by what
        ``balance`` says again.
        """
        self._runtime.limit_memory(memory_budgets(memory_bytes, self.max_channels))

    @property
    def routing_table(self) -> RoutingTable:
        """The table of the batch that runs next."""
        return self._runtime.decision.table

    @property
    def loads(self) -> pa.Table:
        """The last batch, one row per channel: rows, seconds in the operator, keys and bytes held, what is spilled.

        A slot counts as spilled as far as the channel's `memory_bytes` have no room for it.
        """
        reports = self._runtime.reports
        channels = sorted(reports)
        columns: dict[str, Any] = {
            name: [getattr(reports[c], name) for c in channels]
            for name in ("rows", "late_rows", "seconds", "state_rows", "state_bytes", "spilled_bytes")
        }
        owned = np.bincount(self.routing_table.slots, minlength=self.max_channels)
        spilled = np.array([len(reports[c].spilled_slots) for c in channels], np.int64)
        columns |= {"resident_slots": np.maximum(owned[channels] - spilled, 0), "spilled_slots": spilled}
        return pa.table({"channel": np.array(channels, np.int32), **columns})

    @property
    def moves(self) -> list[tuple[int, Move]]:
        """The last moves, each with the batch at whose end the state left its old channel."""
        return [(batch_id, move) for batch_id, moves in self._runtime.moves for move in moves]

    @property
    def plans(self) -> list[tuple[int, Report]]:
        """The last plans, each with the batch after which it was made."""
        return self._runtime.plans

    @property
    def figures(self) -> list[BatchFigures]:
        """The last batches since this start, each in figures."""
        return self._runtime.figures

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802
        """Spark's records of the last batches, each with a section ``"unskew"``: `BatchFigures` as a dictionary."""
        return [with_figures(progress, self._figures_of) for progress in self._query.recentProgress]

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802
        """The last one of `recentProgress`."""
        progress = self._query.lastProgress
        return None if progress is None else with_figures(progress, self._figures_of)

    def add_listener(self, listener: StreamingQueryListener) -> None:
        """Tell one of Spark's listeners the events of this query alone, the progress with its section ``"unskew"``."""
        own = QueryListener(listener, self._query.runId, self._figures_of)
        self._runtime.streams.addListener(own)

    def prometheus(self) -> str:
        """Return the figures of the last batch, and counts since this start, in Prometheus' text format."""
        figures = self.figures
        return prometheus_text(
            self._query.name or str(self._query.id), figures[-1] if figures else None, self._runtime.totals
        )

    def serve_metrics(self, port: int = 0, host: str = "127.0.0.1") -> ThreadingHTTPServer:
        """Answer ``http://host:port/metrics`` with `prometheus` until its ``shutdown()``; port 0 takes a free one."""
        return serve(self.prometheus, port, host)

    def _figures_of(self, batch_id: int) -> BatchFigures | None:
        return next((each for each in reversed(self.figures) if each.batch_id == batch_id), None)
