"""What a task knows about the batch it works for."""

from __future__ import annotations

from functools import lru_cache

from pyspark import TaskContext

from unskew.errors import SessionError
from unskew.spark.decision import Decision

BATCH_PROPERTY = "streaming.sql.batchId"
DECISION_PROPERTY = "unskew.decision"


def task_context() -> TaskContext:
    """Return the context of the running task."""
    context = TaskContext.get()
    if context is None:
        raise SessionError("this function only works inside a Spark task")
    return context


def current_decision(query: str) -> Decision:
    """Return the decision for the batch that this task works for.

    Chosen by batch id, so that a batch that runs again is routed as it was the first time.
    """
    context = task_context()
    batch_id = context.getLocalProperty(BATCH_PROPERTY)
    if batch_id is None:
        raise SessionError(
            "the batch id is not known in this task", hint="unskew runs in Structured Streaming's micro-batch mode only"
        )
    text = context.getLocalProperty(f"{DECISION_PROPERTY}.{query}.{batch_id}")
    if text is None:
        raise SessionError(
            f"there is no decision for batch {batch_id}", hint="start the query again from its checkpoint"
        )
    return _read(text)


@lru_cache(maxsize=4)
def _read(text: str) -> Decision:
    return Decision.from_json(text)
