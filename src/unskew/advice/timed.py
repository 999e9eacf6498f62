"""Advice from measured times: the tasks of an event log, their work shared among keys where keys are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unskew.advice.advice import NOTHING, Advice, Found, judge
from unskew.advice.event_log import EventLog, StatefulBatch
from unskew.advice.keys import FINER, Column, KeyLoads
from unskew.advice.predict import BALANCE, Remedy, Timing, makespan, remedies, skew_seconds
from unskew.errors import ArgumentError, require_number

METHOD = "Spark measured the task times. They are shared among keys by {}."
ERROR = "The gains in single batches lie between {:.2f} and {:.2f}."
WITHOUT_KEYS = "The log names no keys, so gains are upper bounds: a single key may fill the longest task."


def timing_of(loads: Column, rows: float, cores: int, seconds: float | None) -> Timing:
    """Return what a batch takes if its whole time is known, or is not. All of it is taken for work.

    >>> timing_of(np.array([3.0, 1.0]), 4.0, 2, 6.0).work_seconds
    8.0
    """
    if seconds is None:
        return Timing(float(loads.sum()), rows=rows, measured=False)
    require_number("seconds", seconds, 0, whole=False)
    fullest = makespan(loads, cores)
    return Timing(seconds * float(loads.sum()) / fullest if fullest > 0 else 0.0, rows=rows)


def advise_event_log(
    log: EventLog, source: str, keys: KeyLoads | None = None, key: tuple[str, ...] = (), weight: str = ""
) -> Advice:
    """Judge the query whose stragglers cost most, over all its batches with rows.

    Parameters
    ----------
    log
        What Spark measured.
    source
        What to call the log.
    keys, key, weight
        Its keys, their columns, and what the load of a key is, where the query's checkpoint told. Else the work of a
        partition is taken to consist of many small keys.
    """
    batches = [batch for batch in log.of_query(log.busiest) if batch.task_rows.sum() > 0]
    if not batches:
        raise ArgumentError("no batch of this log had rows", where="source", got=source)
    if len(batches) > 2:
        batches = batches[1:]  # in the first one, workers start
    partitions = max(len(batch.task_seconds) for batch in batches)
    if keys is not None and len(keys.rest_by_residue) % (FINER * partitions):
        keys = None  # the checkpoint has another number of partitions by now: it is another query's

    seconds = np.zeros((len(batches), partitions))
    for place, batch in enumerate(batches):
        seconds[place, : len(batch.task_seconds)] = batch.task_seconds
    single = [
        remedies(
            anonymous(now) if keys is None else keys, _timing(batch), partitions=partitions, cores=log.cores, now=now
        )
        for batch, now in zip(batches, seconds, strict=True)
    ]
    costs = [skew_seconds(made[0], _timing(batch), log.cores) for batch, made in zip(batches, single, strict=True)]
    loads, made = seconds.mean(axis=0), _mean(single)
    found = Found(source, key, "seconds", METHOD.format(weight or "partition"), "", batches[0].operation)
    owners = anonymous(loads) if keys is None else keys
    advice = judge(found, owners, loads, made, float(np.mean(costs)), log.cores, measured=True)
    told = BALANCE if advice.best == NOTHING else advice.best
    gains = tuple(next(one.gain for one in each if one.name == told) for each in single)
    error = ERROR.format(min(gains), max(gains))
    found = replace(found, error=error if keys is not None else f"{WITHOUT_KEYS} {error}")
    if keys is None:
        advice = replace(advice, hot_keys=(), distinct_keys=None)
    return replace(advice, found=found, gains=gains)


def _timing(batch: StatefulBatch) -> Timing:
    """Return what a batch takes. What its jobs take beside the stage that holds state is fixed."""
    fixed = max(batch.seconds - batch.stage_seconds, 0.0)
    return Timing(float(batch.task_seconds.sum()), fixed, float(batch.task_rows.sum()))


def _mean(batches: Sequence[tuple[Remedy, ...]]) -> tuple[Remedy, ...]:
    """Return each remedy over all batches. Its gain is that of their whole time."""
    before = sum(made[0].seconds for made in batches)
    together = []
    for each in zip(*batches, strict=True):
        seconds = sum(one.seconds for one in each)
        even = float(np.mean([one.imbalance for one in each]))
        gain = before / seconds if seconds > 0 else 1.0
        together.append(replace(each[0], seconds=seconds / len(each), gain=gain, imbalance=even))
    return tuple(together)


def anonymous(loads: Column, parts: int = 16) -> KeyLoads:
    """Return keys that make up the load of each partition: many, and all alike."""
    partitions = len(loads)
    hashes = np.arange(partitions * parts, dtype=np.int64)
    names = [f"partition {each % partitions}" for each in hashes.tolist()]
    return KeyLoads.of_keys(names, loads[hashes % partitions] / parts, hashes, hashes, residues=FINER * partitions)
