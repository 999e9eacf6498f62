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

_PART = re.compile(r"\s*(-?\d+)\s*([a-z]+?)s?(?=\s|$)", re.IGNORECASE)


def microseconds(duration: str) -> int:
    """Return a duration in words as a number; months have no fixed length and are refused, as Spark does.

    Examples
    --------
    >>> microseconds("10 minutes"), microseconds("interval 1 hour 30 seconds")
    (600000000, 3630000000)
    """
    text = duration.strip()
    if text.lower().startswith("interval "):
        text = text[len("interval ") :]
    total, at = 0, 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None or part[2].lower() not in MICROSECONDS:
            break
        total, at = total + int(part[1]) * MICROSECONDS[part[2].lower()], part.end()
    if not text or text[at:].strip():
        units = ", ".join(f"{unit}s" for unit in MICROSECONDS)
        raise ArgumentError("this is not a duration", got=duration, hint=f'such as "10 minutes"; units are {units}')
    return total
