"""Run an operator without Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from unskew.errors import ArgumentError, ColumnError, did_you_mean, require_list, require_number
from unskew.operators import Operator
from unskew.operators.base import EVENT_TIME_METADATA
from unskew.operators.durations import microseconds
from unskew.testing.runtime import Runtime
from unskew.testing.steps import Event

MOST_PARTS = 1024


@dataclass(frozen=True, eq=False)
class RunResult:
    """What an operator returned, batch by batch, and the state it left; equal if both are, in any row order.

    Tables have their rows in a canonical order.
    """

    outputs: list[pa.Table]  # one per batch, or per part of a batch
    state: pa.Table  # all rows held in the end: ``hash``, ``key.<name>``..., ``value.<name>``...
    attempts: int  # how often batches ran, failed ones included
    late_rows: tuple[int, ...] = ()  # rows dropped as late in each batch

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunResult) and self._rows() == other._rows()

    __hash__ = None  # type: ignore[assignment]

    def _rows(self) -> list[list[str]]:
        return [[repr(row) for row in table.to_pylist()] for table in (*self.outputs, self.state)]


def run(
    operator: Operator,
    steps: Iterable[pa.Table | Event],
    *,
    key: str | Sequence[str],
    channels: int = 1,
    slots: int = 64,
    seed: int = 0,
    watermark: tuple[str, str] | None = None,
    parts: int = 1,
    isolated: bool = False,
) -> RunResult:
    """Run an operator over batches, with events such as failures and moves between them.

    It runs the classes that the runtime runs: rows are routed by hash, sometimes combined on the way, grouped, and
    handed to the operator channel by channel. State is committed to a store, moved, and read back.

    Parameters
    ----------
    operator
        The operator, not bound yet; the first batch's schema is its input.
    steps
        Tables are batches; in one without rows only time passes. Events are `ABORT`, `RESTART`, `MOVE`, `MOVE_SLOT` and
        `ADVANCE`.
    key
        The key's column or columns.
    channels, slots
        Size of the routing table.
    seed
        Decides where aborted batches fail, which machine runs what, and where rows are combined.
    watermark
        Event-time column and delay, ``("ts", "10 minutes")``, as in ``withWatermark``. In each batch the watermark is
        that far behind the greatest time of the batches before, and rows are late by the watermark before that.
        Without it the watermark is the clock, which advances by a second with each batch.
    parts
        How many parts the rows of a batch come in, cut at random: `update` is called for each, `expire` after the last.
    isolated
        Give each call a copy of the operator, so that it cannot remember anything in itself, and read state from the
        store instead of local copies. Faster.

    Examples
    --------
    >>> from unskew.operators import Aggregate
    >>> from unskew.testing import ABORT, MOVE
    >>> rows = pa.table({"user": ["ada", "bob", "ada"]})
    >>> smooth = run(Aggregate(n="count"), [rows, rows], key="user")
    >>> rough = run(Aggregate(n="count"), [rows, MOVE("ada", to=1), ABORT(), rows], key="user", channels=2, seed=7)
    >>> smooth == rough, smooth.outputs[1].to_pylist()
    (True, [{'user': 'ada', 'n': 4}, {'user': 'bob', 'n': 2}])
    """
    if not isinstance(operator, Operator):
        raise ArgumentError("this is not an operator", got=operator, hint='such as Aggregate(n="count")')
    names = (key,) if isinstance(key, str) else require_list("key", key)
    steps = list(require_list("steps", steps))
    require_number("parts", parts, 1, MOST_PARTS)
    require_number("seed", seed, 0)
    batches = [step for step in steps if isinstance(step, pa.Table)]
    if not batches:
        raise ArgumentError("there is no batch to run", hint="steps must hold at least one table")
    schema = input_schema(batches, watermark)
    delay_ms = None if watermark is None else microseconds(watermark[1]) // 1000
    with tempfile.TemporaryDirectory(prefix="unskew-testing-") as folder:
        random = np.random.default_rng(seed)
        bound = operator.bind(schema, names)
        runtime = Runtime(bound, Path(folder), random, channels, slots, delay_ms, parts, isolated)
        outputs, late_rows = list[pa.Table](), list[int]()
        for step in steps:
            if isinstance(step, pa.Table):
                outputs += map(_canonical, runtime.batch(step))
                late_rows.append(runtime.late_rows)
            else:
                runtime.happen(step)
        return RunResult(outputs, _canonical(runtime.held()), runtime.attempts, tuple(late_rows))


def input_schema(batches: Sequence[pa.Table], watermark: tuple[str, str] | None) -> pa.Schema:
    """Return the schema that an operator is bound to, with the event-time column marked."""
    schema = batches[0].schema
    if watermark is None:
        return schema
    if not isinstance(watermark, tuple) or len(watermark) != 2 or not isinstance(watermark[0], str):
        raise ArgumentError("a watermark is a column and a delay", got=watermark, hint='such as ("ts", "10 minutes")')
    if watermark[0] not in schema.names:
        hint = did_you_mean(watermark[0], schema.names)
        raise ColumnError("there is no column of that name", where="watermark", got=watermark[0], hint=hint)
    return schema.with_metadata({EVENT_TIME_METADATA: watermark[0]})


def _canonical(rows: pa.Table) -> pa.Table:
    texts = [repr(row) for row in rows.to_pylist()]
    return rows.take(pa.array(sorted(range(len(texts)), key=texts.__getitem__), pa.int64()))
