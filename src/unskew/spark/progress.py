"""Spark's progress records with a section of unskew's own, and listeners that are told them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from unskew.runtime.figures import BatchFigures

SECTION = "unskew"

FiguresOf = Callable[[int], BatchFigures | None]
"""Gives the figures of a batch, None if they are not known (any more)."""


def with_figures(progress: StreamingQueryProgress, figures_of: FiguresOf) -> StreamingQueryProgress:
    """Return a copy of Spark's record with the section ``"unskew"``; None in it where a batch has no figures.

    Such a batch is one that ended before this start, or a trigger in which nothing ran. The section is also in the
    record's ``json`` and ``prettyJson``.
    """
    figures = figures_of(progress.batchId)
    section = None if figures is None else figures.as_dict()
    record: Any = StreamingQueryProgress.fromJson({**json.loads(progress.json), SECTION: section})
    record[SECTION] = section
    return record  # type: ignore[no-any-return]


class QueryListener(StreamingQueryListener):
    """Passes the events of one query on to a listener, with unskew's figures in the progress.

    Spark calls listeners of all queries; this one looks at the id of the run.
    """

    def __init__(self, listener: StreamingQueryListener, run_id: Any, figures_of: FiguresOf) -> None:
        self._listener, self._run_id, self._figures_of = listener, str(run_id), figures_of

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing: the query had started before anybody could listen to it."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        if str(event.progress.runId) == self._run_id:
            self._listener.onQueryProgress(QueryProgressEvent(with_figures(event.progress, self._figures_of)))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        if str(event.runId) == self._run_id:
            self._listener.onQueryIdle(event)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        if str(event.runId) == self._run_id:
            self._listener.onQueryTerminated(event)
