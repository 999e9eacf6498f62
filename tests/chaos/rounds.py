"""What a round does, drawn from the seed and its number: query, cluster, data, strikes and perhaps another fault."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from chaos.phases import HELD
from unskew.testing import write_batches

LOCAL, CLUSTER = "local[2,4]", "local-cluster[2,1,1024]"
SHARES = {LOCAL: {"worker": 85, "driver": 15}, CLUSTER: {"worker": 65, "executor": 27, "driver": 8}}
"""Who dies how often: a worker costs part of a batch, an executor a start of Java and Python, a driver three."""

ROWS, KEYS = 1500, 300
FILE_SECONDS = 20
FIRST_SECOND = datetime(2024, 1, 1, tzinfo=UTC).timestamp()
QUERY_ROTA = ("chain", "totals", "chain", "windows", "chain", "sessions", "lives")
TASK_PHASES = ("tasks", "tasks", "tasks", "tasks", "work", "sink", "any")
"""When workers and executors die: mostly while tasks run, or as soon as they do; now and then at any instant."""


@dataclass(frozen=True)
class Strike:
    """A kill: whose turn it is once a batch is reached, in which phase of a batch, and how far into it."""

    batch: int
    victim: str
    phase: str
    fraction: float


@dataclass(frozen=True)
class Round:
    """One run of one query over its own data."""

    seed: int
    number: int
    query: str
    master: str
    sink: str
    resize: bool
    batches: int
    strikes: tuple[Strike, ...]
    fault: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """What the job is told."""
        own = self.seed * 100_003 + self.number
        return {"query": self.query, "master": self.master, "seed": own, "sink": self.sink, "resize": self.resize}


def fault_of(number: int, faults: tuple[str, ...]) -> str:
    """Return the fault of a round: every third round has one in turn, and every fourth of these is the first one."""
    turn, is_one = divmod(number, 3)
    if not faults or is_one != 2:
        return ""
    return faults[0] if turn % 4 == 0 or len(faults) == 1 else faults[1 + (turn - turn // 4 - 1) % (len(faults) - 1)]


def drawn(seed: int, number: int, faults: tuple[str, ...] = (), kills: int = 25) -> Round:
    """Draw a round; one with a fault has fewer kills."""
    dice = random.Random(f"{seed} {number}")
    fault = fault_of(number, faults)
    master = CLUSTER if number % 3 == 1 else LOCAL
    query = "lives" if fault == "clock" else "chain" if fault else QUERY_ROTA[number % len(QUERY_ROTA)]
    strikes, batch = [], 0
    for _ in range(1 + kills // 10 if fault else kills):
        victim = dice.choices(list(SHARES[master]), list(SHARES[master].values()))[0]
        phase = dice.choice((*HELD, "count", "work", "work", "sink") if victim == "driver" else TASK_PHASES)
        strikes.append(Strike(batch, victim, phase, dice.random()))
        batch += victim == "executor" or dice.random() < 0.4
    sink = "files" if fault == "zombie" or dice.random() < 0.5 else "foreachBatch"
    resize = query in ("chain", "totals", "lives") and sink != "files" and dice.random() < 0.5
    spare = 12 if fault else 3 + kills // 4
    return Round(seed, number, query, master, sink, resize, batch + spare, tuple(strikes), fault)


def write_data(round_: Round, folder: Path) -> tuple[list[pa.Table], Counter[Any]]:
    """Write a file for each batch; return the tables, and how many rows each key has.

    Each file spans 20 seconds of its own. Streams with windows also have rows that are minutes late and must not count:
    their `sequence` is below 0. One row of a key ``last`` at the end lies far in the future, so that all windows end.
    """
    rng = np.random.default_rng((round_.seed, round_.number))
    timed = round_.query in ("windows", "sessions")
    tables, truth = [], Counter[Any]()
    for batch in range(round_.batches):
        numbers = (rng.zipf(1.4, ROWS) + 37 * (batch // 4)) % KEYS
        keys = [None if k == 7 else f"k{k}" for k in numbers.tolist()]
        seconds = np.sort(FIRST_SECOND + FILE_SECONDS * (batch + rng.random(ROWS)))
        sequence = np.arange(ROWS) + batch * ROWS
        if timed and batch > 5:
            late = rng.random(ROWS) < 0.02
            seconds, sequence = np.where(late, seconds - 400, seconds), np.where(late, -1, sequence)
        tables.append(_table(keys, np.full(ROWS, batch), sequence, seconds))
        truth.update(keys)
    if timed:
        tables.append(_table(["last"], [round_.batches], [round_.batches * ROWS], [FIRST_SECOND + 1e6]))
    write_batches(folder, tables)
    return tables, truth


def _table(keys: Any, source: Any, sequence: Any, seconds: Any) -> pa.Table:
    at = pa.array((np.asarray(seconds) * 1e6).astype(np.int64)).cast(pa.timestamp("us", "UTC"))
    return pa.table(
        {"key": pa.array(keys, pa.string()), "source": source, "sequence": sequence, "at": at},
        schema=pa.schema([("key", pa.string()), ("source", pa.int64()), ("sequence", pa.int64()), ("at", at.type)]),
    )
