"""State values as Spark's `GroupState` takes and gives them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType, StructType

from unskew.errors import ArgumentError
from unskew.spark.per_key.arrow_settings import ArrowSettings
from unskew.spark.per_key.plain_values import PlainValues, State, to_python
from unskew.versions.arrow import arrow_to_tuples

Convert = Callable[[Any], Any]

_LONG = range(-(1 << 63), 1 << 63)
_BITS: dict[type[DataType], int] = {
    spark_types.ByteType: 8,
    spark_types.ShortType: 16,
    spark_types.IntegerType: 32,
    spark_types.LongType: 64,
}
_TAKEN_AS_IT_IS: dict[type[DataType], type] = {
    spark_types.BooleanType: bool,
    spark_types.FloatType: float,
    spark_types.DoubleType: float,
    spark_types.StringType: str,
    **dict.fromkeys(_BITS, int),
}


class SparkValues(PlainValues):
    """Converts state as Spark does: a value that is not of the declared type becomes null, or is fitted to it.

    Spark pickles a state, sends it to the JVM and takes what it recognises: an integer in a double field is null, a
    larger integer is cut to its lower bits, anything in a string field becomes text.
    """

    def __init__(self, schema: StructType) -> None:
        # timestamps are instants, so the session's time zone does not matter
        super().__init__(pa.struct(list(ArrowSettings().arrow_schema(schema))))
        self._schema = schema
        kinds = (type(field.dataType) for field in schema.fields)
        # a float of 32 bits comes back rounded, so it is converted
        self._plain = tuple(None if kind is spark_types.FloatType else _TAKEN_AS_IT_IS.get(kind) for kind in kinds)
        self._limits = [
            (place, 1 << (_BITS[type(field.dataType)] - 1))
            for place, field in enumerate(schema.fields)
            if type(field.dataType) in _BITS
        ]
        self.hashable = all(plain not in (None, float) for plain in self._plain)  # and equal as they are to Spark

    def as_kept(self, value: Any) -> State:
        """Return a tuple as the next one to ask gets it back from Spark."""
        if tuple(map(type, value)) == self._plain and self._fits(value):
            return tuple(value)
        state = tuple(map(without_numpy, value))
        if len(state) != len(self._plain):
            raise ArgumentError(f"a state has {len(self._plain)} fields", got=state)
        pairs = zip(state, self._plain, strict=True)
        if all(each is None or type(each) is plain for each, plain in pairs) and self._fits(state):
            return state
        (kept,) = self.to_python(self.to_arrow([state]))
        return cast(State, kept)

    def _fits(self, state: Sequence[Any]) -> bool:
        """Tell whether the integers of a state fit into their fields."""
        for place, limit in self._limits:  # a loop, since this runs for every update
            value = state[place]
            if value is not None and not -limit <= value < limit:
                return False
        return True

    def column_to_python(self, column: pa.Array, position: int) -> list[Any]:
        field = self._schema.fields[position]
        if self._plain[position] is not None:
            return to_python(column)
        table = pa.Table.from_arrays([column], [field.name])
        return [row[0] for row in arrow_to_tuples(table, StructType([field]))]

    def column_to_arrow(self, values: Sequence[Any], position: int) -> pa.Array:
        spark_type, arrow_type = self._schema.fields[position].dataType, self.kind.field(position).type
        plain = _TAKEN_AS_IT_IS.get(type(spark_type))
        if plain is not None and {*map(type, values)} <= {plain, type(None)}:
            try:
                return pa.array(values, arrow_type)
            except (pa.ArrowInvalid, OverflowError):  # too large for the type
                pass
        convert = from_python(spark_type)
        return pa.array([convert(spark_type.toInternal(value)) for value in values], arrow_type)


class MapKey(tuple[Any, ...]):
    """A key of a map whose equality is not Python's: Spark compares the bits of floats, and lists are keys, too."""

    identity: Hashable

    def __new__(cls, values: State) -> MapKey:
        key = super().__new__(cls, values)
        key.identity = _identity(values)
        return key

    def __eq__(self, other: object) -> bool:
        return self.identity == other.identity if isinstance(other, MapKey) else super().__eq__(other)

    def __hash__(self) -> int:
        return hash(self.identity)


def _identity(value: Any) -> Hashable:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value.hex()
    return tuple(map(_identity, value)) if isinstance(value, (list, tuple)) else value


def from_python(kind: DataType) -> Convert:
    """Return how Spark's JVM side turns an internal value into the declared type; null if it cannot."""
    convert = _from_python(kind)
    return lambda value: None if value is None else convert(value)


def _from_python(kind: DataType) -> Convert:
    if type(kind) in _BITS:
        half = 1 << (_BITS[type(kind)] - 1)
        return lambda value: (value + half) % (2 * half) - half if type(value) is int and value in _LONG else None
    if isinstance(kind, spark_types.StringType):
        return _text
    if type(kind) in _TAKEN_AS_IT_IS:
        wanted = _TAKEN_AS_IT_IS[type(kind)]
        return lambda value: value if isinstance(value, wanted) else None
    if isinstance(kind, spark_types.BinaryType):
        return _bytes
    if isinstance(kind, spark_types.DecimalType):
        unit = Decimal(1).scaleb(-kind.scale)
        return lambda value: (
            value.quantize(unit, ROUND_HALF_UP) if isinstance(value, Decimal) and value.is_finite() else None
        )
    if isinstance(kind, spark_types.ArrayType):
        element = from_python(kind.elementType)
        return lambda value: [element(each) for each in value] if _is_sequence(value) else None
    if isinstance(kind, spark_types.MapType):
        key, item = from_python(kind.keyType), from_python(kind.valueType)
        return lambda value: [(key(k), item(v)) for k, v in value.items()] if isinstance(value, dict) else None
    if isinstance(kind, StructType):
        converters = [from_python(field.dataType) for field in kind.fields]
        return lambda value: tuple(convert(each) for convert, each in zip(converters, value, strict=True))
    if isinstance(kind, spark_types.UserDefinedType):
        return from_python(kind.sqlType())
    return lambda value: value  # dates and times, which toInternal has made numbers


def without_numpy(value: Any) -> Any:
    """Return a value with those of NumPy and pandas in it as Python's own."""
    if isinstance(value, np.generic):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return list(map(without_numpy, value))
    if isinstance(value, dict):
        return {without_numpy(key): without_numpy(each) for key, each in value.items()}
    return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or hasattr(value, "__array__")


def _bytes(value: Any) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    return bytes(value) if isinstance(value, (bytes, bytearray)) else None


def _text(value: Any) -> str:
    """Return a value as Java prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_double(value)
    if isinstance(value, list):
        return f"[{', '.join('null' if each is None else _text(each) for each in value)}]"
    return str(value)


def _java_double(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f") if value != int(value) else f"{value:.1f}"
    digits, exponent = f"{Decimal(repr(value)):E}".split("E")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"
