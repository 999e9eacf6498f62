"""How Spark converts between Arrow and pandas: its own code, under the settings of the user's session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from unskew.versions.arrow import arrow_to_pandas, pandas_to_arrow, to_arrow_schema


@dataclass(frozen=True)
class ArrowSettings:
    """The settings of a session that decide how pandas frames look and how they are read."""

    timezone: str = "UTC"  # timestamps are shown in it, without naming it
    rows_per_frame: int = 10_000  # at most
    safe_casts: bool = False  # an overflow in the output is an error
    columns_by_name: bool = True  # the output's columns are found by name, if they have names; else by position
    integers_to_decimals: bool = False  # integers may stand in decimal columns of the output
    nullable_integers: bool = False  # integers are shown as pandas' own nullable integers

    @classmethod
    def of(cls, spark: SparkSession) -> ArrowSettings:
        """Read the settings of a session."""

        def flag(name: str, default: str) -> bool:
            return str(spark.conf.get(name, default)).lower() == "true"

        rows = int(str(spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")))
        return cls(
            timezone=str(spark.conf.get("spark.sql.session.timeZone")),
            rows_per_frame=rows if rows > 0 else (1 << 31) - 1,
            safe_casts=flag("spark.sql.execution.pandas.convertToArrowArraySafely", "false"),
            columns_by_name=flag("spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName", "true"),
            integers_to_decimals=flag("spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled", "false"),
            nullable_integers=flag("spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype", "false"),
        )

    def arrow_schema(self, schema: StructType) -> pa.Schema:
        """Return the Arrow schema of rows; every column may hold nulls, as after any stateful operator of Spark's."""
        fields = to_arrow_schema(schema, timezone=self.timezone)
        return pa.schema([pa.field(field.name, field.type) for field in fields])

    def to_pandas(self, rows: pa.RecordBatch) -> list[pd.Series[Any]]:
        """Return the columns as Spark shows them to a pandas function."""
        return arrow_to_pandas(rows, self.timezone, self.nullable_integers)

    def to_arrow(self, columns: Sequence[pd.Series[Any]], schema: StructType) -> pa.RecordBatch:
        """Return a function's output, one series per field, as Spark reads it."""
        return pandas_to_arrow(
            columns,
            schema,
            timezone=self.timezone,
            safe=self.safe_casts,
            by_name=self.columns_by_name,
            integers_to_decimals=self.integers_to_decimals,
        )
