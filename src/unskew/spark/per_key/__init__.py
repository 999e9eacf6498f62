"""Functions that run once per key and batch: Spark's ``applyInPandasWithState`` as a drop-in, and a lean form."""

from unskew.spark.per_key.arrow_settings import ArrowSettings
from unskew.spark.per_key.base import PerKeyFunction
from unskew.spark.per_key.initial_state import initial_parcels, state_of
from unskew.spark.per_key.lean_function import KEEP, Lean, LeanFunction
from unskew.spark.per_key.pandas_function import PandasFunction
from unskew.spark.per_key.rows import Rows

__all__ = [
    "KEEP",
    "ArrowSettings",
    "Lean",
    "LeanFunction",
    "PandasFunction",
    "PerKeyFunction",
    "Rows",
    "initial_parcels",
    "state_of",
]
