"""A running balanced query: Spark's `StreamingQuery`, and what unskew knows beside it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming import listener as events
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from unskew.errors import ArgumentError
from unskew.routing.table import RoutingTable
from unskew.runtime.decisions import Decision, decisions
from unskew.runtime.figures import BatchFigures, MoveMade
from unskew.runtime.history import History
from unskew.runtime.log import RecordLog
from unskew.runtime.memory import memory_budgets
from unskew.runtime.settings import Settings
from unskew.spark.prometheus import count_batch, prometheus_text, serve

if TYPE_CHECKING:
    from unskew.watch.server import Server

SECTION = "unskew"
FIGURES_SHOWN = 1000

FiguresOf = Callable[[int], BatchFigures | None]  # the figures of a batch, None if they are not known any more


class BalancedQuery:
    """Behaves like the `StreamingQuery` it wraps, and adds the routing table, the loads and the moves.

    Everything not listed here (``awaitTermination``, ``stop``, ``status``, ...) is Spark's own. The query reads what it
    tells you from small files in the checkpoint, and passes your requests on in the same way.
    """

    def __init__(self, query: StreamingQuery, log: RecordLog, settings: Settings, spark: SparkSession) -> None:
        self._query, self._log, self._settings, self._spark = query, log, settings, spark
        self._lock = threading.Lock()
        self._history, self._counted = History(log.files, FIGURES_SHOWN), log.last()[1]
        self._totals: Counter[str] = Counter()

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

        Returns at once. The next batch is planned for the new number, and state moves with its rows. If more state has
        to move than may move in one batch, it takes several. A restart goes on with the new number.
        """
        slots = self._settings.channels.slots
        if isinstance(channels, bool) or not isinstance(channels, int) or not 1 <= channels <= slots:
            raise ArgumentError(f"channels must be a whole number from 1 to {slots}", got=channels)
        self._log.ask(channels=channels)

    def limit_memory(self, memory_bytes: int | Sequence[int] | None) -> None:
        """Change how much of its state each channel may hold, from the next batch on.

        Give one number for all channels, one for each, or None for no limit. The next start uses the limit of
        ``balance`` again.
        """
        self._log.ask(memory_bytes=list(memory_budgets(memory_bytes)))

    @property
    def routing_table(self) -> RoutingTable:
        """The routing table of the last batch, or the initial one before any batch."""
        record = self._log.read(self._log.last()[0])
        if record is None:
            return RoutingTable.initial(self._settings.channels.count, self._settings.channels.slots)
        return record.table

    @property
    def loads(self) -> pa.Table:
        """The last batch, one row per channel: rows, seconds in the operator, keys and bytes held, bytes spilled.

        ``found`` says what the channel found of its state; see `BatchFigures`. Keys, bytes and ``found`` are null for a
        channel that had nothing to do.
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
        """The latest moves of state, each with its batch."""
        return [(figures.batch_id, move) for figures in self.figures for move in figures.moves]

    @property
    def plans(self) -> list[tuple[int, dict[str, Any]]]:
        """The latest plans, each with the batch that it was made for."""
        return [(figures.batch_id, figures.plan) for figures in self.figures if figures.plan is not None]

    @property
    def decisions(self) -> list[Decision]:
        """What was decided in the latest batches that were planned, and what came of it."""
        return decisions(self.figures)

    def watch(self, port: int = 0, host: str = "127.0.0.1", names: Sequence[str] = ()) -> Server:
        """Serve a live page on this query until ``stop()``; shows its link in a notebook.

        Parameters
        ----------
        port
            0 takes a free one.
        host
            The address to listen on. There is no password, and the page names keys.
        names
            Other host names under which the page may be opened.
        """
        from unskew.watch.server import Server

        files = self._log.files
        return Server({files.root.removesuffix("/unskew"): History(files)}, port, host, names)

    @property
    def figures(self) -> list[BatchFigures]:
        """The figures of the latest batches, those of earlier starts included."""
        with self._lock:
            known = self._history.refresh()
            for batch_id, figures in known.items():
                if batch_id > self._counted:
                    count_batch(self._totals, figures)
            self._counted = max(self._counted, *known, -1)
            return list(known.values())

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802
        """Spark's records of the latest batches, each with a section ``"unskew"``: `BatchFigures` as a dictionary."""
        known = {figures.batch_id: figures for figures in self.figures}
        return [with_figures(progress, known.get) for progress in self._query.recentProgress]

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802
        """The last one of `recentProgress`."""
        progress = self._query.lastProgress
        return None if progress is None else with_figures(progress, self._figures_of)

    def add_listener(self, listener: StreamingQueryListener) -> None:
        """Send the events of this query alone to a listener; its progress has the section ``"unskew"``."""
        self._spark.streams.addListener(QueryListener(listener, self._query.runId, self._figures_of))

    def prometheus(self) -> str:
        """Return the figures of the last batch, and totals since this start, in Prometheus' text format."""
        figures = self.figures
        return prometheus_text(self._query.name or str(self._query.id), figures[-1] if figures else None, self._totals)

    def serve_metrics(self, port: int = 0, host: str = "127.0.0.1") -> ThreadingHTTPServer:
        """Answer ``http://host:port/metrics`` with `prometheus` until its ``shutdown()``; port 0 takes a free one."""
        return serve(self.prometheus, port, host)

    def _figures_of(self, batch_id: int) -> BatchFigures | None:
        return next((each for each in reversed(self.figures) if each.batch_id == batch_id), None)


def with_figures(progress: StreamingQueryProgress, figures_of: FiguresOf) -> StreamingQueryProgress:
    """Return a copy of Spark's record with the section ``"unskew"``, also in its ``json`` and ``prettyJson``.

    The section is None if the batch ended before this start, or nothing ran in the trigger.
    """
    figures = figures_of(progress.batchId)
    section = None if figures is None else figures.as_dict()
    record: Any = StreamingQueryProgress.fromJson({**json.loads(progress.json), SECTION: section})
    record[SECTION] = section
    return record  # type: ignore[no-any-return]


class QueryListener(StreamingQueryListener):
    """Passes the events of one run of a query on to a listener, with unskew's figures in the progress."""

    def __init__(self, listener: StreamingQueryListener, run_id: Any, figures_of: FiguresOf) -> None:
        self._listener, self._run_id, self._figures_of = listener, str(run_id), figures_of

    def onQueryStarted(self, event: events.QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing: the query had started before anybody could listen to it."""

    def onQueryProgress(self, event: events.QueryProgressEvent) -> None:  # noqa: N802
        if str(event.progress.runId) == self._run_id:
            self._listener.onQueryProgress(events.QueryProgressEvent(with_figures(event.progress, self._figures_of)))

    def onQueryIdle(self, event: events.QueryIdleEvent) -> None:  # noqa: N802
        if str(event.runId) == self._run_id:
            self._listener.onQueryIdle(event)

    def onQueryTerminated(self, event: events.QueryTerminatedEvent) -> None:  # noqa: N802
        if str(event.runId) == self._run_id:
            self._listener.onQueryTerminated(event)
