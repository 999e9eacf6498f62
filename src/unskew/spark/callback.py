"""What Spark calls for every micro-batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame

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

if TYPE_CHECKING:
    from unskew.spark.stage import Stage

# Spark runs a recursive regular expression over what foreachBatch raises, which longer errors overflow
LONGEST = 3000
# Spark looks for this text to know that a query was only stopped
INTERRUPTED = "py4j.protocol.Py4JJavaError: An error occurred while calling stop: java.lang.InterruptedException"
STOPPED = (
    "InterruptedException",
    "InterruptedIOException",
    "ClosedByInterruptException",
    "cancelled",
    "SparkContext was shut down",
)


@dataclass(eq=False)
class Callback:
    """Runs batches through the engine; the function that ``foreachBatch`` is given."""

    stage: Stage
    engine: Engine
    checkpoint: Files  # Spark's own logs
    sink: Sink
    ticking: bool = False  # whether one source of the stream is the tick
    initial: Callable[[Work], DataFrame] | None = None  # gives state to begin with, as parcels
    anchors: Anchors | None = None  # holds tasks to their homes on a cluster
    last: BatchFacts | None = None  # the batch before

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        seen = read_facts(self.checkpoint, batch_id)
        facts = Facts(batch_id, seen.fingerprint, seen.time_ms, seen.watermark_ms, self._is_empty(seen))
        initial = self.initial if batch_id == 0 else None
        jobs = SparkJobs(rows, self.stage.key, self.stage.cores, initial, self.anchors)

        def give(output: Output, number: int) -> None:
            files, schema = self.engine.log.files, self.stage.output_schema
            self.sink(output_frame(rows.sparkSession, output, files, schema), number)

        try:
            self.engine.run(facts, jobs, give)
            self.last = seen
        except Exception as error:
            raise short(error, batch_id) from None
        finally:
            jobs.close()

    def _is_empty(self, seen: BatchFacts) -> bool:
        """Tell whether only the tick is new in this batch."""
        if not self.ticking or seen.batch_id == 0:
            return False
        before = self.last
        if before is None or before.batch_id != seen.batch_id - 1:
            before = read_facts(self.checkpoint, seen.batch_id - 1)
        return only_tick_advanced(before, seen, find_tick(seen))


def short(error: Exception, batch_id: int) -> Exception:
    """Return an error that says the same in few words, without its way through our code and Spark's."""
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
