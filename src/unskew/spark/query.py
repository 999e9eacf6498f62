"""A running balanced query: Spark's `StreamingQuery`, and what unskew knows beside it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from http.server import ThreadingHTTPServer
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from unskew.errors import ArgumentError
from unskew.routing.table import RoutingTable
from unskew.runtime.figures import BatchFigures, MoveMade
from unskew.runtime.log import FIGURES_KEPT, RecordLog
from unskew.runtime.memory import memory_budgets
from unskew.runtime.settings import Settings
from unskew.spark.progress import QueryListener, with_figures
from unskew.spark.prometheus import Totals, prometheus_text, serve


class BalancedQuery:
    """Behaves like the `StreamingQuery` it wraps; also tells the routing table, the loads and the moves.

    Everything not listed here (``awaitTermination``, ``stop``, ``status``, ...) is Spark's own. What it tells, it reads
    from small files beside the checkpoint; what you ask of it travels the same way.
    """

    def __init__(self, query: StreamingQuery, log: RecordLog, settings: Settings, spark: SparkSession) -> None:
        self._query, self._log, self._settings, self._spark = query, log, settings, spark
        self._lock = threading.Lock()
        self._known: dict[int, BatchFigures] = {}
        self._totals = Totals()
        self._first = log.last()[1] + 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    def __repr__(self) -> str:
        figures = self.figures
        name = self._query.name or str(self._query.id)
        state = "running" if self._query.isActive else "stopped"
        if not figures:
            return f"BalancedQuery({name!r}, {state}, no batch yet)"
        last = figures[-1]
        return (
            f"BalancedQuery({name!r}, {state}, batch {last.batch_id}, {last.rows:,} rows on {last.channels} channels, "
            f"imbalance {last.imbalance:.2f})"
        )

    def resize(self, channels: int) -> None:
        """Use another number of channels while the query runs.

        Returns at once. The next batch is planned for the new number, and state moves with its rows; with several
        batches, if it is more than may move in one. A restart goes on with the new number.
        """
        slots = self._settings.channels.slots
        if isinstance(channels, bool) or not isinstance(channels, int) or not 1 <= channels <= slots:
            raise ArgumentError(f"channels is a whole number from 1 to {slots}", got=channels)
        self._log.ask(channels=channels)

    def limit_memory(self, memory_bytes: int | Sequence[int] | None) -> None:
        """Change how much of its state each channel may hold, from the next batch on.

        One number for all channels, one for each, or None for no limit. The next start goes by what ``balance`` says
        again.
        """
        self._log.ask(memory_bytes=list(memory_budgets(memory_bytes)))

    @property
    def routing_table(self) -> RoutingTable:
        """The table of the last batch, with the keys that it lists by name; before any batch, the one to begin with."""
        record = self._log.read(self._log.last()[0])
        if record is None:
            return RoutingTable.initial(self._settings.channels.count, self._settings.channels.slots)
        return record.table

    @property
    def loads(self) -> pa.Table:
        """The last batch, one row per channel: rows, seconds in the operator, keys and bytes held, what is spilled.

        ``found`` says what the channel found of its state; see `BatchFigures`. Keys, bytes and ``found`` are null for a
        channel that was not called.
        """
        figures = self.figures
        names = ("rows", "seconds", "keys", "bytes", "spilled", "found")
        last = figures[-1] if figures else None
        columns = {name: np.array([] if last is None else getattr(last, f"channel_{name}")) for name in names}
        held = columns["keys"] >= 0
        return pa.table(
            {
                "channel": np.arange(len(columns["rows"]), dtype=np.int32),
                "rows": columns["rows"].astype(np.int64),
                "seconds": columns["seconds"].astype(np.float64),
                "state_rows": pa.array(columns["keys"].astype(np.int64), mask=~held),
                "state_bytes": pa.array(columns["bytes"].astype(np.int64), mask=~held),
                "spilled_bytes": columns["spilled"].astype(np.int64),
                "found": pa.array(columns["found"].tolist(), pa.string(), mask=~held),
            }
        )

    @property
    def moves(self) -> list[tuple[int, MoveMade]]:
        """The last moves, each with the batch in which the state moved."""
        return [(figures.batch_id, move) for figures in self.figures for move in figures.moves]

    @property
    def plans(self) -> list[tuple[int, dict[str, Any]]]:
        """The last plans, each with the batch that it was made for."""
        return [(figures.batch_id, figures.plan) for figures in self.figures if figures.plan is not None]

    @property
    def figures(self) -> list[BatchFigures]:
        """The last batches, each in figures, of earlier starts too."""
        with self._lock:
            for batch_id in self._log.figures_after(max(self._known, default=-1)):
                figures = self._log.read_figures(batch_id)
                if figures is not None:
                    self._known[batch_id] = BatchFigures.from_dict(figures)
                    if batch_id >= self._first:
                        self._totals.add(self._known[batch_id])
            self._known = dict(sorted(self._known.items())[-FIGURES_KEPT:])
            return list(self._known.values())

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802
        """Spark's records of the last batches, each with a section ``"unskew"``: `BatchFigures` as a dictionary."""
        known = {figures.batch_id: figures for figures in self.figures}
        return [with_figures(progress, known.get) for progress in self._query.recentProgress]

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802
        """The last one of `recentProgress`."""
        progress = self._query.lastProgress
        return None if progress is None else with_figures(progress, self._figures_of)

    def add_listener(self, listener: StreamingQueryListener) -> None:
        """Tell one of Spark's listeners the events of this query alone, the progress with its section ``"unskew"``."""
        self._spark.streams.addListener(QueryListener(listener, self._query.runId, self._figures_of))

    def prometheus(self) -> str:
        """Return the figures of the last batch, and counts since this start, in Prometheus' text format."""
        figures = self.figures
        return prometheus_text(self._query.name or str(self._query.id), figures[-1] if figures else None, self._totals)

    def serve_metrics(self, port: int = 0, host: str = "127.0.0.1") -> ThreadingHTTPServer:
        """Answer ``http://host:port/metrics`` with `prometheus` until its ``shutdown()``; port 0 takes a free one."""
        return serve(self.prometheus, port, host)

    def _figures_of(self, batch_id: int) -> BatchFigures | None:
        return next((each for each in reversed(self.figures) if each.batch_id == batch_id), None)
