"""Durations in words, as Spark's users write them."""

from __future__ import annotations

import re

from unskew.errors import ArgumentError

MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}

_PART = rf"\s*(-?\d+)\s*({'|'.join(MICROSECONDS)})s?(?=\s|$)"


def microseconds(duration: str) -> int:
    """Return the microseconds of a duration in words. Months have no fixed length and are refused, as in Spark.

    >>> microseconds("10 minutes"), microseconds("interval 1 hour 30 seconds")
    (600000000, 3630000000)
    """
    given = duration.strip() if isinstance(duration, str) else ""
    if not re.fullmatch(rf"(?:interval )?(?:{_PART})+", given, re.IGNORECASE):
        units = ", ".join(f"{unit}s" for unit in MICROSECONDS)
        raise ArgumentError("this is not a duration", got=duration, hint=f'such as "10 minutes"; units are {units}')
    parts = re.findall(_PART, given, re.IGNORECASE)
    return sum(int(count) * MICROSECONDS[unit.lower()] for count, unit in parts)
