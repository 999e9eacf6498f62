"""Aggregates in words, as people write them in SQL."""

from __future__ import annotations

import re

from unskew.errors import ArgumentError

_RESULT = re.compile(r"(?P<call>.*?)(?:\s+as\s+(?P<name>\w+))?", re.IGNORECASE | re.DOTALL)
_COMMA = re.compile(r",(?![^()]*\))")  # not within parentheses
_NOT_A_WORD = re.compile(r"\W+")


def parse_aggregates(text: str) -> dict[str, str]:
    """Return results by name; one that is not named is called after what it is.

    Examples
    --------
    >>> parse_aggregates("count, sum(amount), max_by(item, amount) as largest")
    {'count': 'count', 'sum_amount': 'sum(amount)', 'largest': 'max_by(item, amount)'}
    """
    results: dict[str, str] = {}
    for part in _COMMA.split(text):
        match = _RESULT.fullmatch(part.strip())
        call = match["call"].strip() if match else ""
        if not match or not call:
            raise ArgumentError(
                "an aggregate is missing", where="aggregate", got=text, hint="such as count, sum(amount)"
            )
        name = match["name"] or _NOT_A_WORD.sub("_", call.lower()).strip("_")
        if name in results:
            raise ArgumentError(
                f"two results are called {name!r}", where="aggregate", got=text, hint="name them: sum(amount) as total"
            )
        results[name] = call
    return results
