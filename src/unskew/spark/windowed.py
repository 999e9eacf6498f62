"""A stream grouped by key and window of event time, in place of Spark's ``groupBy(key, window(...))``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unskew.operators import Operator
from unskew.spark.stage import Stage


@dataclass(frozen=True)
class WindowedStream:
    """Says what shall be done per key and window; see `BalancedStream.window` and `BalancedStream.session_window`.

    Parameters
    ----------
    apply
        Runs an operator on the stream.
    make
        Makes the operator: ``make(aggregates=...)``.
    """

    apply: Callable[[Operator], Stage]
    make: Callable[..., Any]

    def aggregate(self, **aggregates: str) -> Stage:
        """Keep aggregates per key and window: ``aggregate(n="count", total="sum(amount)")``."""
        return self.apply(self.make(aggregates=aggregates))
