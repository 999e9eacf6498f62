"""What an operator learns from a batch, in one place, for all tasks of the next one."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from unskew.operators import Learner, Operator
from unskew.spark.decision import Decision


def channel_schema(operator: Operator, output_schema: StructType) -> StructType:
    """Return what channels put out, which of a learner is not what the user gets to see."""
    return from_arrow_schema(operator.output_schema, prefer_timestamp_ntz=True) if operator.learns else output_schema


@dataclass(frozen=True, eq=False)
class Learned:
    """What is known after a batch, and the rows that the user gets to see.

    A pure function of the decision for the batch and of its output: a batch that runs again teaches the same.

    Parameters
    ----------
    rows
        For the sink.
    learned, lesson
        For the decision about the next batch.
    """

    rows: DataFrame
    learned: bytes = b""
    lesson: bytes = b""

    @classmethod
    def of(cls, operator: Operator, last: Decision, output: DataFrame, schema: StructType) -> Learned:
        """Let an operator learn from a batch; one that does not learn shows what it put out.

        Parameters
        ----------
        last
            The decision that the batch ran under.
        output
            What channels put out.
        schema
            Of the rows for the user.
        """
        if not isinstance(operator, Learner):
            return cls(output)
        arrived: pa.Table = output.toArrow()
        learned = operator.learn(last.learned, arrived.cast(operator.output_schema))
        rows = output.sparkSession.createDataFrame(operator.result(learned), schema=schema)
        return cls(rows, learned, operator.lesson_of(learned))
