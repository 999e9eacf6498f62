"""The trigger ``availableNow`` before Spark 4.2, where Python sources such as the tick do not know it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from unskew.spark.offsets import last_committed
from unskew.spark.settings import session_settings
from unskew.spark.tick import NO_DATA_BATCHES, Mode, files_at, tick_reader, with_tick
from unskew.versions.sources import LIMITS_READS

# Spark asks a source that does not know the trigger once, at the start, instead of taking all there is in one batch.
ASK_ONCE = {"spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true"}


Start = Callable[[DataFrame], StreamingQuery]


def start_with_tick(
    start: Start, events: DataFrame, place: str, checkpoint: str, mode: Mode, available_now: bool
) -> StreamingQuery:
    """Start a query on a stream with a tick; see `unskew.spark.tick.with_tick`."""
    if LIMITS_READS or not available_now:
        return start(with_tick(events, place, checkpoint, mode))
    spark, before = events.sparkSession, last_committed(files_at(checkpoint))

    def is_due(until: float) -> bool:
        reader = tick_reader(place, checkpoint, mode, str(until), "True", str(spark.conf.get(NO_DATA_BATCHES)))
        return reader.batch > before and reader.due()

    query: Any = UntilQuiet(start, partial(with_tick, events, place, checkpoint, mode), is_due, spark)
    return query  # type: ignore[no-any-return]


class UntilQuiet:
    """A query that is started again until no batch without rows is due; otherwise the `StreamingQuery` of its last run.

    A run ends when the rows are read that were there at its start. The batches without rows that follow from these need
    runs of their own, which take a second or two each. Rows that have come meanwhile are read, too.
    """

    def __init__(
        self,
        start: Start,
        ticked: Callable[..., DataFrame],  # gives the stream with a tick
        is_due: Callable[[float], bool],  # tells whether a batch without rows is due next, by a clock that stands still
        spark: SparkSession,
    ) -> None:
        self._start, self._ticked, self._is_due = start, ticked, is_due
        self._began = time.time()
        self._lock, self._stopped = threading.Lock(), False
        self._earlier: list[Any] = []
        self._error: Exception | None = None
        self._settings = ExitStack()  # Spark reads them some time after the start
        self._settings.enter_context(session_settings(spark, ASK_ONCE))
        try:
            self._query = self._run(again=False)
        except BaseException:
            self._settings.close()
            raise
        self._thread = threading.Thread(target=self._follow, name="unskew-until-quiet", daemon=True)
        self._thread.start()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self._thread.is_alive()

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802
        return [*self._earlier, *self._query.recentProgress]

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802
        """Wait until the last run has ended; raise what ended it."""
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return None if timeout is None else not self.isActive

    def processAllAvailable(self) -> None:  # noqa: N802
        """Wait for the end, which comes when all is processed."""
        self.awaitTermination()

    def stop(self) -> None:
        """Stop, and do not start again."""
        with self._lock:
            self._stopped = True
            self._query.stop()
        self._thread.join()

    def _run(self, again: bool) -> StreamingQuery:
        return self._start(self._ticked(until=self._began, again=again))

    def _follow(self) -> None:
        try:
            while self._ended_and_due():
                with self._lock:
                    if self._stopped:
                        return
                    earlier = self._query.recentProgress
                    self._query = self._run(again=True)
                    self._earlier += earlier
        except Exception as error:  # for the thread that waits
            self._error = error
        finally:
            self._settings.close()

    def _ended_and_due(self) -> bool:
        self._query.awaitTermination()
        return not self._stopped and self._is_due(self._began)
