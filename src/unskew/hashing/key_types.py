"""Which Spark types can be a key, checked by the name of the type where Arrow cannot tell."""

from __future__ import annotations

import re

from unskew.errors import KeyTypeError

_BINARY_COLLATION = "UTF8_BINARY"
_REFUSED = {
    "map": "a map has no fixed order of entries: make the key from map_entries() sorted, or from single entries",
    "variant": "Spark neither groups nor hashes variants: extract a typed field with variant_get()",
    "void": "the column holds only nulls: cast it to the type it should have",
    "interval": "Spark does not order calendar intervals: use a day-time interval",
    "interval year to month": "pyarrow cannot read year-month intervals: cast the column to an integer of months",
    "geometry": "Spark does not group geometries: use their binary form",
    "geography": "Spark does not group geographies: use their binary form",
}


def check_key_type(name: str, spark_type: str) -> None:
    """Raise `KeyTypeError` if the column `name` cannot be a key; `spark_type` is its type's ``simpleString()``."""
    check_collation(name, spark_type)
    for refused, hint in _REFUSED.items():
        # the type stands alone or inside array<...> and struct<field:...>, never as the name of a field
        if re.search(rf"(?:^|[<:,]){refused}(?:[<(,>]|$)", spark_type):
            what = f"a key cannot be of type {refused}, nor contain it"
            raise KeyTypeError(what, where=f"column {name!r}", got=spark_type, hint=hint)


def check_collation(name: str, spark_type: str) -> None:
    """Raise `KeyTypeError` if a key has strings that are compared in another way than byte by byte.

    Collated strings arrive in Arrow as plain strings, so only Spark's schema tells them apart. Strings that are equal
    under a collation may have different bytes, and would be routed to different channels.
    """
    for collation in re.findall(r"\bstring collate (\w+)", spark_type):
        if collation != _BINARY_COLLATION:
            hint = f"collate the key as {_BINARY_COLLATION}, for instance lower({name})"
            raise KeyTypeError("a collated string cannot be a key", where=f"column {name!r}", got=spark_type, hint=hint)
