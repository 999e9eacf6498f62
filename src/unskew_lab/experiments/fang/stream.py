"""A planner that follows a drifting stream, without the stream: only the loads of each interval."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.hashing import xxhash64
from unskew.planners import PLANNERS, Assignment, Memory, Planner, Problem, planner
from unskew.planners.fang.base import FangPlanner
from unskew.planners.fang.order import priorities
from unskew.planners.fang.records import Records
from unskew.planners.fang.recovery import load_error, recover_owners
from unskew.workloads.fluctuation import Fluctuation
from unskew.workloads.zipf import Zipf
from unskew_lab.experiments.fang.grid import Trial
from unskew_lab.experiments.runner import Measures, cpu_seconds

ENOUGH = 0.05  # seconds: what takes longer need not be timed again


def follow(trial: Trial) -> Measures:
    """Let the planner of a trial plan at the end of every interval; returns one number per interval and measure.

    A key costs one per tuple and keeps as much state. The planner sees the loads of the interval that ended, and its
    table is in force in the next. Planning time is CPU time of this thread, so that trials can run side by side.
    `sorted_loads` is the exception: the loads of the channels over their mean, ascending, each a mean over intervals.
    """
    home = _home(trial.keys, trial.channels)
    base = Zipf(exponent=trial.skew, key_count=trial.keys, seed=trial.seed)
    drift = Fluctuation(base=base, rate=trial.rate, channels=trial.channels)
    chosen, memory, current = _planner(trial), Memory(), home
    measures: Measures = defaultdict(list)
    loads, calls = np.zeros(trial.channels), 3 if trial.intervals <= 100 else 1
    for interval in range(trial.intervals):
        cost = drift.probabilities(interval) * (10 * trial.keys)
        problem = Problem.of_keys(cost, channels=trial.channels, current=current, home=home)
        if interval == 0:
            chosen.assign(problem, memory)  # loads the compiled kernels
        answer, timed = _assign(chosen, problem, memory, calls)
        report = chosen.describe(problem, answer)
        memory, current = answer.memory, answer.owner
        if interval < trial.warm_up:
            continue
        loads += np.sort(problem.loads(answer.owner)) / problem.mean_load
        for name, value in {
            "migration_share": report.migration_share,
            "overload_before": report.overload_before,
            "overload_after": report.overload_after,
            "table_size": report.table_size,
            "moved_keys": report.moved_keys,
            "forced": report.forced,
            "table_overflow": "table_overflow" in answer.notes,
            **timed,
        }.items():
            measures[name].append(float(value))
    return {**measures, "sorted_loads": (loads / (trial.intervals - trial.warm_up)).tolist()}


def _assign(chosen: Planner, problem: Problem, memory: Memory, calls: int) -> tuple[Assignment, dict[str, float]]:
    """Plan and take the time; records apart, since the channels build them and not the planner."""
    if not isinstance(chosen, FangPlanner) or chosen.degree is None:
        answer, seconds = cpu_seconds(lambda: chosen.assign(problem, memory), calls, ENOUGH)
        return answer, {"plan_seconds": seconds}
    columns = (problem.cost, problem.state, problem.current, problem.home)
    records, record_of = Records.of_keys(*columns, degree=chosen.degree)
    plan, planning = cpu_seconds(lambda: chosen.plan_records(records, problem.background_cost), calls, ENOUGH)

    def recover() -> NDArray[np.int32]:
        rank = problem.cost if plan.by_cost else priorities(problem.cost, problem.state, chosen.priority_exponent)
        return recover_owners(plan.records, plan.source, record_of, rank, problem.current)

    owner, recovering = cpu_seconds(recover, calls, ENOUGH)
    return Assignment(owner, plan.forced, plan.notes, memory), {
        "records_seconds": planning,
        "plan_seconds": planning + recovering,
        "records": len(records),
        "load_error": load_error(plan.loads, problem.loads(owner)),
    }


def _planner(trial: Trial) -> Planner:
    wanted: dict[str, Any] = {
        "tolerance": trial.tolerance,
        "table_cap": trial.table_cap,
        "window": trial.window,
        "migration_exponent": trial.exponent,
        "degree": trial.degree if trial.degree >= 0 else None,
        "threshold_scale": trial.threshold_scale,
        "compute": "linear",
    }
    known = PLANNERS[trial.planner].__dataclass_fields__  # type: ignore[attr-defined]
    return planner(trial.planner, **{name: value for name, value in wanted.items() if name in known})


@lru_cache(maxsize=4)
def _home(keys: int, channels: int) -> NDArray[np.int32]:
    return np.mod(xxhash64([pa.array(np.arange(keys))]), channels).astype(np.int32)
