"""The test run: what an operator returns and leaves behind."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from unskew.errors import ArgumentError
from unskew.operators import Operator
from unskew.operators.base import EVENT_TIME_METADATA
from unskew.operators.durations import microseconds
from unskew.testing.runtime import Runtime
from unskew.testing.steps import Event


@dataclass(frozen=True, eq=False)
class RunResult:
    """What an operator returned, batch by batch, and the state it left behind; equal if both are, in any row order.

    Parameters
    ----------
    outputs
        One table per batch, or per part of a batch, its rows in a canonical order.
    state
        All rows held in the end, in a canonical order: ``hash``, ``key.<name>``..., ``value.<name>``...
    attempts
        How often batches were run, the failed ones too.
    late_rows
        What the operator passed over as late, in each batch.
    """

    outputs: list[pa.Table]
    state: pa.Table
    attempts: int
    late_rows: tuple[int, ...] = ()

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
    """Run an operator over batches, with whatever happens between them.

    Works as the runtime does: rows are routed by their keys' hashes, combined on the way at times, grouped, handed to
    the operator channel by channel; state is committed to a store, moved by extraction and installation, and read again
    from a local copy or from the store.

    Parameters
    ----------
    operator
        Not bound yet; the first batch's schema is its input.
    steps
        Tables are batches (without rows: a batch in which only time passes). See `ABORT`, `RESTART`, `MOVE`, `ADVANCE`.
    key
        The key's column or columns.
    channels, slots
        Size of the routing table.
    seed
        Decides where aborted batches fail, which machine runs what, and where rows are combined.
    watermark
        Column of the event time and delay, ``("ts", "10 minutes")``, as in ``withWatermark``: in each batch the
        watermark lies that much behind the greatest time of the batches before, and rows are late by the one before
        that. Without, the watermark is the clock, which goes on by a second with each batch.
    parts
        How many parts the rows of a batch come in, cut at random: the operator's `update` is called for each, `expire`
        after the last.
    isolated
        Whether each call gets a copy of the operator, so that it cannot remember anything in itself, and state is
        read from the store, never from local copies; quicker.

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
    names = (key,) if isinstance(key, str) else tuple(key)
    steps = list(steps)
    batches = [step for step in steps if isinstance(step, pa.Table)]
    if not batches:
        raise ArgumentError("there is no batch to run", hint="steps must hold at least one table")
    schema, delay_ms = batches[0].schema, None
    if watermark is not None:
        schema, delay_ms = schema.with_metadata({EVENT_TIME_METADATA: watermark[0]}), microseconds(watermark[1]) // 1000
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


def _canonical(rows: pa.Table) -> pa.Table:
    texts = [repr(row) for row in rows.to_pylist()]
    return rows.take(pa.array(sorted(range(len(texts)), key=texts.__getitem__), pa.int64()))
