"""What a job of the collection is: a processor or a function, how it is called, and the rows that it runs on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

EVENTS = pa.schema(
    {
        "user": pa.string(),
        "at": pa.timestamp("us", "UTC"),
        "amount": pa.int64(),
        "what": pa.string(),
        "ms": pa.int64(),  # the time as a number, which is the same in every time zone
    }
)
HOUR_MS = 3_600_000
TOLD = "user string, told string"


def events(seed: int, batches: int = 4, rows: int = 30, users: int = 6, nulls: bool = False) -> list[pa.Table]:
    """Return batches of events; time goes on by a minute a batch, and some events come late."""
    rng = np.random.default_rng(seed)
    made = []
    for batch in range(batches):
        seconds = 60 * (batch + 1) + rng.integers(-150, 60, rows).clip(-60 * batch)
        user = [None if nulls and n == 2 else f"user {n}" for n in rng.zipf(1.7, rows) % users]
        columns = {
            "user": pa.array(user, pa.string()),
            "at": pa.array(seconds * 1_000_000).cast(pa.timestamp("us", "UTC")),
            "amount": rng.integers(0, 50, rows),
            "what": rng.choice(["view", "buy", "return"], rows).tolist(),
            "ms": seconds * 1_000,
        }
        made.append(pa.table(columns, schema=EVENTS))
    return made


@dataclass(frozen=True)
class Case:
    """A processor, or a function of ``applyInPandasWithState``, and how it is called."""

    job: Any  # the class of a processor, or a function
    output: str = TOLD
    time_mode: str = "None"  # of a function its kind of timeout
    output_mode: str = "update"
    by_row: bool = False
    watermark: str | None = None
    initial: list[tuple[Any, ...]] | None = None  # rows of user, amount
    batches: Callable[[], list[pa.Table]] = field(default=partial(events, 1))
    event_time: str = ""
    key: tuple[str, ...] = ("user",)
    state: str = ""  # of a function, the schema of its state

    @property
    def is_processor(self) -> bool:
        return isinstance(self.job, type) and issubclass(self.job, StatefulProcessor)

    @property
    def by_the_clock(self) -> bool:
        """Whether Spark goes on with batches without rows for ever."""
        return self.time_mode.startswith("ProcessingTime")

    def stage(self, grouped: Any, job: Any, initial: Any) -> Any:
        """Return the stream that `job`, the case's own or one derived from it, makes of a grouped stream."""
        if not self.is_processor:
            return grouped.applyInPandasWithState(job, self.output, self.state, self.output_mode, self.time_mode)
        method = grouped.transformWithState if self.by_row else grouped.transformWithStateInPandas
        return method(
            statefulProcessor=job(),
            outputStructType=self.output,
            outputMode=self.output_mode,
            timeMode=self.time_mode,
            initialState=initial,
            eventTimeColumnName=self.event_time,
        )


def told(key: Any, *what: Any) -> pd.DataFrame:
    """Return one row: the key, and what is told about it."""
    return pd.DataFrame({"user": [key[0]], "told": [repr(what)]})
