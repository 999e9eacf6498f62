"""What Spark calls for every micro-batch."""

from __future__ import annotations

from dataclasses import dataclass

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from unskew.errors import BatchError
from unskew.runtime.engine import Engine
from unskew.runtime.jobs import Facts
from unskew.runtime.record import Output
from unskew.spark.anchors import Anchors
from unskew.spark.frames import output_frame
from unskew.spark.jobs import Initial, SparkJobs
from unskew.spark.offsets import BatchFacts, find_tick, only_tick_advanced, read_facts
from unskew.spark.sinks import Sink
from unskew.state.files import Files

# Spark runs a recursive regular expression over what foreachBatch raises, which longer errors overflow
LONGEST = 3000
# Spark looks for this text to know that a query was only stopped
INTERRUPTED = "py4j.protocol.Py4JJavaError: An error occurred while calling stop: java.lang.InterruptedException"
JAVA_FRAMES = ("\tat ", "\t... ")
WORKER_DIED = "Python worker exited unexpectedly"
STOPPED = (
    "InterruptedException",
    "InterruptedIOException",
    "ClosedByInterruptException",
    "cancelled",
    "SparkContext was shut down",
)


@dataclass(eq=False)
class Callback:
    """Runs batches through the engine; the function that ``foreachBatch`` is given.

    Under Spark Connect a copy of it runs in a process beside the server, so it holds no session and no DataFrame.
    """

    engine: Engine
    checkpoint: Files  # Spark's own logs
    sink: Sink
    key: tuple[str, ...]  # the columns that Spark's own hash would place rows by
    cores: int  # tasks that can run at once
    output_schema: StructType
    ticking: bool = False  # whether one source of the stream is the tick
    initial: Initial | None = None
    anchors: Anchors | None = None  # holds tasks to their homes on a cluster
    last: BatchFacts | None = None  # the batch before

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        seen = read_facts(self.checkpoint, batch_id)
        facts = Facts(batch_id, seen.fingerprint, seen.time_ms, seen.watermark_ms, self._is_empty(seen))
        initial = self.initial if batch_id == 0 else None
        jobs = SparkJobs(rows, self.key, self.cores, initial, self.anchors)

        def give(output: Output, number: int) -> None:
            files = self.engine.log.files
            self.sink(output_frame(rows.sparkSession, output, files, self.output_schema), number)

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
    text = "\n".join(line for line in text.split("\n") if not line.startswith(JAVA_FRAMES))
    if WORKER_DIED in text:
        return BatchError(
            f"a Python worker died in the middle of batch {batch_id}",
            hint="a function ended the process, crashed in compiled code, or needed more memory than there is. The "
            "executors' logs say more; spark.python.worker.faulthandler.enabled=true adds where it happened",
        )
    if isinstance(error, Py4JJavaError) and any(word in text for word in STOPPED):
        return BatchError(f"the query was stopped in the middle of batch {batch_id}. {INTERRUPTED}")
    notes = "\n".join(getattr(error, "__notes__", ()))
    if len(text) + len(notes) <= LONGEST and not isinstance(error, Py4JError):
        error.__cause__ = None
        return error.with_traceback(None)
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}\n...\n{text[-LONGEST // 2 :]}"
    return BatchError(f"batch {batch_id} failed: {text}")
