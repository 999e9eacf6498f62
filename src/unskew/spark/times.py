"""Times in words, as Spark's users write them."""

from __future__ import annotations

from unskew.errors import ArgumentError

MILLISECONDS = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000}


def milliseconds(time: str) -> int:
    """Return a time in words as a number.

    Examples
    --------
    >>> milliseconds("30 seconds"), milliseconds("1 minute")
    (30000, 60000)
    """
    number, _, unit = time.strip().partition(" ")
    factor = MILLISECONDS.get(unit.strip().lower().removesuffix("s"))
    if factor is None or not number.isdecimal():
        raise ArgumentError("this is not a time", got=time, hint='a whole number and a unit, such as "30 seconds"')
    return int(number) * factor
