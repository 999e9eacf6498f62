"""What Spark calls for every micro-batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from unskew.errors import BatchError
from unskew.runtime.engine import Engine
from unskew.runtime.jobs import Facts, Work
from unskew.runtime.record import Output
from unskew.spark.anchors import Anchors
from unskew.spark.frames import output_frame
from unskew.spark.jobs import SparkJobs
from unskew.spark.offsets import BatchFacts, find_tick, only_tick_advanced, read_facts
from unskew.spark.sinks import Sink
from unskew.state.files import Files

LONGEST = 3000
"""Letters of an error that Spark can bear: it runs a recursive regular expression over what ``foreachBatch`` raises."""

INTERRUPTED = "py4j.protocol.Py4JJavaError: An error occurred while calling stop: java.lang.InterruptedException"
"""What Spark looks for in an error to know that it was only stopped."""

STOPPED = ("InterruptedException", "InterruptedIOException", "cancelled", "SparkContext was shut down")


@dataclass(eq=False)
class Callback:
    """Runs a batch through the engine; the function that ``foreachBatch`` is given.

    Parameters
    ----------
    engine
        Who runs it.
    checkpoint
        Where Spark keeps its own logs.
    key
        The key's columns in the stream.
    cores
        Tasks that can run at once.
    sink, schema
        Who gets the rows, and what they look like.
    ticking
        Whether the last source of the stream is the tick, which has no rows.
    initial
        Gives state to begin with, as parcels.
    anchors
        Holds tasks to their homes on a cluster.
    """

    engine: Engine
    checkpoint: Files
    key: tuple[str, ...]
    cores: int
    sink: Sink
    schema: StructType
    ticking: bool = False
    initial: Callable[[Work], DataFrame] | None = None
    anchors: Anchors | None = None

    def __post_init__(self) -> None:
        self._last: BatchFacts | None = None

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        seen = read_facts(self.checkpoint, batch_id)
        facts = Facts(batch_id, seen.fingerprint, seen.time_ms, seen.watermark_ms, self._is_empty(seen))
        jobs = SparkJobs(rows, self.key, self.cores, self.initial if batch_id == 0 else None, self.anchors)
        spark: Any = rows.sparkSession

        def give(output: Output, number: int) -> None:
            self.sink(output_frame(spark, output, self.engine.log.files, self.schema), number)

        try:
            self.engine.run(facts, jobs, give)
            self._last = seen
        except Exception as error:
            raise short(error, batch_id) from None
        finally:
            jobs.close()

    def _is_empty(self, seen: BatchFacts) -> bool:
        """Tell whether the tick alone is new in this batch."""
        if not self.ticking or seen.batch_id == 0:
            return False
        before = self._last
        if before is None or before.batch_id != seen.batch_id - 1:
            before = read_facts(self.checkpoint, seen.batch_id - 1)
        return only_tick_advanced(before, seen, find_tick(seen))


def short(error: Exception, batch_id: int) -> Exception:
    """Return an error that says the same in few words, without the way it took through our code and Spark's."""
    text = f"{type(error).__name__}: {error}".split("\n\nJVM stacktrace:")[0]
    if isinstance(error, Py4JJavaError) and any(word in text for word in STOPPED):
        return BatchError(f"the query was stopped in the middle of batch {batch_id}. {INTERRUPTED}")
    notes = "\n".join(getattr(error, "__notes__", ()))
    if len(text) + len(notes) <= LONGEST and not isinstance(error, Py4JError):
        error.__cause__ = None
        return error.with_traceback(None)
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}\n...\n{text[-LONGEST // 2 :]}"
    return BatchError(f"batch {batch_id} failed: {text}")
