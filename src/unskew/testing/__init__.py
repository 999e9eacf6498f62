"""Test an operator without Spark, with failures and moves as data.

    run(operator, [rows, ABORT(), rows, RESTART(), MOVE("ada", to=1), rows], key="user", channels=2)

    check_operator(operator, batches, key="user")

An operator is correct if its result does not depend on the events between batches or on the number of channels.
Then run it on Spark with the same batches:

    spark.readStream.schema(...).option("maxFilesPerTrigger", 1).parquet(write_batches(folder, batches))
"""

from unskew.testing.check import CheckError, check_operator
from unskew.testing.files import write_batches
from unskew.testing.run import RunResult, run
from unskew.testing.steps import ABORT, ADVANCE, MOVE, MOVE_SLOT, RESTART, disturbed

__all__ = [
    "ABORT",
    "ADVANCE",
    "MOVE",
    "MOVE_SLOT",
    "RESTART",
    "CheckError",
    "RunResult",
    "check_operator",
    "disturbed",
    "run",
    "write_batches",
]
