"""Test an operator without Spark, with failures and moves as data.

    run(operator, [rows, ABORT(), rows, RESTART(), MOVE("ada", to=1), rows], key="user", channels=2)

    check_operator(operator, batches, key="user")

An operator is correct if its result does not depend on the events between batches or on the number of channels.
Then run it on Spark with the same batches:

    spark.readStream.schema(...).option("maxFilesPerTrigger", 1).parquet(write_batches(folder, batches))

Test a stateful processor key by key with `TwsTester`, which takes what a test for Spark's own tester does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unskew.testing.check import CheckError, check_operator
from unskew.testing.files import write_batches
from unskew.testing.run import RunResult, run
from unskew.testing.steps import ABORT, ADVANCE, MOVE, MOVE_SLOT, RESTART, disturbed

if TYPE_CHECKING:
    from unskew.testing.tws_tester import TwsTester

__all__ = [
    "ABORT",
    "ADVANCE",
    "MOVE",
    "MOVE_SLOT",
    "RESTART",
    "CheckError",
    "RunResult",
    "TwsTester",
    "check_operator",
    "disturbed",
    "run",
    "write_batches",
]


def __getattr__(name: str) -> Any:
    if name != "TwsTester":  # the only one that needs PySpark
        raise AttributeError(f"module 'unskew.testing' has no attribute {name!r}")
    from unskew.testing.tws_tester import TwsTester  # noqa: PLC0415

    return TwsTester
