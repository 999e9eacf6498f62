"""What runs once per key and batch: Spark's per-key functions and stateful processors as drop-ins, and a lean form."""

from unskew.spark.per_key.arrow_settings import ArrowSettings
from unskew.spark.per_key.base import PerKeyFunction
from unskew.spark.per_key.initial_rows import handled_parcels
from unskew.spark.per_key.lean_function import KEEP, Lean, LeanFunction
from unskew.spark.per_key.pandas_function import PandasFunction
from unskew.spark.per_key.processor import Processor
from unskew.spark.per_key.processor_forms import PandasProcessor, RowProcessor
from unskew.spark.per_key.rows import Rows

__all__ = [
    "KEEP",
    "ArrowSettings",
    "Lean",
    "LeanFunction",
    "PandasFunction",
    "PandasProcessor",
    "PerKeyFunction",
    "Processor",
    "RowProcessor",
    "Rows",
    "handled_parcels",
]
