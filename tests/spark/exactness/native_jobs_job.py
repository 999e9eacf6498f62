"""Jobs of the collection in queries beside each other; meant to be killed and started again until all have ended."""

from __future__ import annotations

import os
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

from native_jobs.case import Case
from native_jobs.collection import CASES
from native_jobs.running import NATIVE_SETTINGS, Held, Kept, Killed, calls, disturbed, hold, run, stages
from unskew.spark.local_session import SHORT_RUN, session

HELD_IN_BATCH = 2


def held_or_killed(home: Path, side: str, name: str, number: int) -> tuple[Any, Any]:
    """Return the job, and what happens when a batch has been written.

    On the side ``held`` every query comes to a stop: half of them in a worker, in the middle of a batch of which
    nothing is recorded, the others in the sink. On the side ``killed`` each loses a worker.
    """
    case, mark = CASES[name], home / "marks" / f"{number}"
    if side == "native":
        return case.job, lambda batch_id: None
    if side == "killed":
        return disturbed(case, Killed(mark.with_suffix(".killed"), at=2)), lambda batch_id: None
    if number % 2:
        return case.job, lambda batch_id: hold(mark) if batch_id == HELD_IN_BATCH else None
    return disturbed(case, Held(mark, at=calls(case, case.batches()[:HELD_IN_BATCH]) + 2)), lambda batch_id: None


def main(home: Path, side: str, names: list[str]) -> None:
    """Run queries to their end, all at once."""
    more = {"spark.driver.memory": "1500m", **NATIVE_SETTINGS}
    spark = session(f"local[{3 * len(names)},4]", {**SHORT_RUN, **more})
    starts = []
    for number, name in enumerate(names):
        case: Case = CASES[name]
        tables, folder = case.batches(), home / "out" / ("native" if side == "native" else "ours") / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        job, holding = held_or_killed(home, side, name, number)
        natively, balanced = stages(spark, str(home / "rows" / str(number)), case, tables[0].schema, job)
        kept = Kept(case, len(tables), folder, holding)
        stage = natively() if side == "native" else balanced()
        place = home / "checkpoints" / ("native" if side == "native" else "ours") / str(number)
        starts.append(partial(run, stage, place, kept))
    with ThreadPoolExecutor(len(starts)) as beside:
        for running in as_completed([beside.submit(start) for start in starts]):
            if running.exception() is not None:  # others may be held for ever
                traceback.print_exception(running.exception())
                os._exit(1)
    print("ENDED", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
