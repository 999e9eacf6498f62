"""A stream grouped by key and window of event time, in place of Spark's ``groupBy(key, window(...))``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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
        Makes the operator: ``make(output_mode=..., aggregates=...)``.
    output_mode
        What its rows mean; None: what ``writeStream.outputMode`` says, and where it says nothing ``"append"``.
    has_modes
        Whether there is more than one; else `make` takes none.
    """

    apply: Callable[[Operator], Stage]
    make: Callable[..., Any]
    output_mode: str | None = None
    has_modes: bool = True

    def aggregate(self, **aggregates: str) -> Stage:
        """Keep aggregates per key and window: ``aggregate(n="count", total="sum(amount)")``."""
        if not self.has_modes:
            return self.apply(self.make(aggregates=aggregates))

        def in_mode(mode: str) -> Stage:
            return self.apply(self.make(output_mode=mode, aggregates=aggregates))

        if self.output_mode is not None:
            return in_mode(self.output_mode)
        return replace(in_mode("update"), in_mode=in_mode)  # which does not need a watermark yet
