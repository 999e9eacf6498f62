"""Which Spark types may be a key: what Arrow cannot show is checked on Spark's own type name."""

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
    """Raise `KeyTypeError` if a column of `spark_type` cannot be a key.

    Collated strings arrive in Arrow as plain strings, so that only Spark's schema tells them apart. Strings that
    are equal under a collation have different bytes and would be routed to different channels.

    Parameters
    ----------
    name
        The column's name, for the message.
    spark_type
        The type as Spark's ``simpleString()`` prints it.

    Examples
    --------
    >>> check_key_type("user", "struct<country:string,id:bigint>")
    >>> check_key_type("user", "string collate UTF8_LCASE")
    Traceback (most recent call last):
    unskew.errors.KeyTypeError: a collated string cannot be a key, got 'string collate UTF8_LCASE' (in column 'user').
    Hint: collate the key as UTF8_BINARY, for instance lower(user).
    """
    for collation in re.findall(r"\bstring collate (\w+)", spark_type):
        if collation != _BINARY_COLLATION:
            hint = f"collate the key as {_BINARY_COLLATION}, for instance lower({name})"
            raise KeyTypeError("a collated string cannot be a key", where=f"column {name!r}", got=spark_type, hint=hint)
    for refused, hint in _REFUSED.items():
        # the type stands alone or inside array<...> and struct<field:...>, never as the name of a field
        if re.search(rf"(?:^|[<:,]){refused}(?:[<(,>]|$)", spark_type):
            what = f"a key cannot be of type {refused}, nor contain it"
            raise KeyTypeError(what, where=f"column {name!r}", got=spark_type, hint=hint)
