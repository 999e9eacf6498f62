"""From how many messages on a key is hot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ArgumentError

Column = NDArray[np.float64]
Places = NDArray[np.int64]

HOT_BY = ("share", "abs", "cover", "listed")
ROUNDING = 1e-12


def hot_positions(
    counts: Column, total: float, hot_by: str, threshold: float, undercount: Column | float = 0.0
) -> Places:
    """Return the positions of the hot keys, ascending. A key without messages is never hot.

    Parameters
    ----------
    counts
        Messages of each key in a window.
    total
        Messages of the window, those of keys not listed included.
    hot_by
        ``"share"``: keys with at least `threshold` of all messages. ``"abs"``: with at least so many messages.
        ``"cover"``: the fewest keys, heaviest first, that together have that share of all messages. ``"listed"``: all,
        because whoever counted has chosen.
    threshold
        See above.
    undercount
        By how much counts may be low (lossy counting). A key counts as hot if it may be.

    Examples
    --------
    >>> counts = np.array([40.0, 5.0, 25.0, 0.0])
    >>> [hot_positions(counts, 100.0, by, t).tolist() for by, t in (("share", 0.2), ("abs", 5), ("cover", 0.5))]
    [[0, 2], [0, 1, 2], [0, 2]]
    """
    upper = counts + undercount
    some = counts > 0
    if hot_by == "listed":
        return np.flatnonzero(some)
    if hot_by == "cover":
        order = np.argsort(-counts, kind="stable")
        reached = np.searchsorted(np.cumsum(counts[order]), threshold * total * (1 - ROUNDING)) + 1
        chosen = order[: int(reached)]
        return np.sort(chosen[some[chosen]])
    least = threshold * total if hot_by == "share" else threshold
    return np.flatnonzero(some & (upper >= least * (1 - ROUNDING)))


def check_threshold(hot_by: str, threshold: float) -> None:
    """Raise `ArgumentError` unless there is such a way to tell hot keys, and such a threshold."""
    if hot_by not in HOT_BY:
        raise ArgumentError("there is no such way to tell hot keys", got=hot_by, hint=f"one of {', '.join(HOT_BY)}")
    if hot_by in ("share", "cover") and not 0 < threshold <= 1:
        raise ArgumentError("hot_threshold must be a share, above 0 and at most 1", got=threshold)
    if hot_by == "abs" and not threshold > 0:
        raise ArgumentError("hot_threshold must be above 0", got=threshold, hint="100 messages in SMALOPS' long run")
