"""A stream of edges of a graph, whose two ends are correlated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.workloads.base import Seeded, keys_option
from unskew.workloads.power_law import power_law
from unskew.workloads.span import EXTRA, KEYS, Span


@dataclass(frozen=True, kw_only=True)
class Edges(Seeded, name="edges"):
    """Edges of a graph: column ``source`` may feed the sources of a stream, ``key``, the destination, its workers.

    Both ends follow the same Zipf law exactly. With probability `correlation` the source stands close to the
    destination in popularity, so that each source vertex sees destinations of its own; otherwise the two are
    independent. Self-loops are not taken out.

    Parameters
    ----------
    exponent, key_count
        Zipf's law of both ends; the defaults are the stand-in for LiveJournal.
    correlation
        0 for independent ends, 1 for edges that never leave their neighbourhood.
    neighbourhood
        How close is close: the part of all edges that a neighbourhood has.

    Examples
    --------
    >>> edges = Edges(exponent=1.0, key_count=1000)
    >>> edges.rows(interval=0, n=3).select(["source", "key"]).to_pylist()
    [{'source': 297, 'key': 652}, {'source': 5, 'key': 5}, {'source': 129, 'key': 124}]

    References
    ----------
    Nasir et al., Partial Key Grouping, Figure 8.
    """

    exponent: float = 0.698
    key_count: int = keys_option(4_900_000)
    correlation: float = 0.5
    neighbourhood: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("exponent", self.exponent, 0 <= self.exponent < 100, "0 or more")
        self.check("keys", self.key_count, self.key_count > 0, "above 0")
        self.check("correlation", self.correlation, 0 <= self.correlation <= 1, "in [0, 1]")
        self.check("neighbourhood", self.neighbourhood, 0 < self.neighbourhood <= 1, "in (0, 1]")

    @property
    def domain(self) -> int:
        """The number of vertices."""
        return self.key_count

    def draw(self, span: Span) -> NDArray[np.int64]:
        """Return the destinations."""
        return power_law(self.exponent, self.key_count).quantile(span.uniforms(self.seed, KEYS))

    def sources(self, span: Span) -> NDArray[np.int64]:
        """Return the sources.

        A uniform number that is moved a random way around the circle is still uniform, which keeps the sources' law.
        """
        chance = span.uniforms(self.seed, EXTRA)
        near = span.uniforms(self.seed, KEYS) + self.neighbourhood * span.uniforms(self.seed, EXTRA + 1)
        related = span.uniforms(self.seed, EXTRA + 2) < self.correlation
        return power_law(self.exponent, self.key_count).quantile(np.where(related, near % 1.0, chance))

    def extra_columns(self, span: Span) -> Mapping[str, pa.Array]:
        """Return the column ``source``."""
        return {"source": pa.array(self.sources(span))}

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        """Return the law of the destinations, the same in every interval."""
        return power_law(self.exponent, self.key_count).probabilities()
