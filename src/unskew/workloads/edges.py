"""A stream of edges of a graph, whose two ends are correlated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.workloads.base import exponent_option, keys_option, option
from unskew.workloads.span import EXTRA, KEYS, Span
from unskew.workloads.zipf import Zipf


@dataclass(frozen=True, kw_only=True)
class Edges(Zipf, name="edges"):
    """Edges of a graph: column ``source`` may feed the sources of a stream, ``key``, the destination, its workers.

    Both ends follow the same Zipf law exactly. With probability `correlation` the source is about as popular as the
    destination, so that each source vertex sees destinations of its own; otherwise the two are independent.
    Self-loops stay in.

    Source: Nasir et al., Partial Key Grouping, Figure 8.

    >>> edges = Edges(exponent=1.0, key_count=1000)
    >>> edges.rows(interval=0, n=3).select(["source", "key"]).to_pylist()
    [{'source': 297, 'key': 652}, {'source': 5, 'key': 5}, {'source': 129, 'key': 124}]
    """

    exponent: float = exponent_option(0.698)  # Zipf's law of both ends; the defaults are the stand-in for LiveJournal
    key_count: int = keys_option(4_900_000)
    # 0 for independent ends, 1 for edges that never leave their neighbourhood
    correlation: float = option(0.5, at_least=0, at_most=1)
    # how close is close: the part of all edges that a neighbourhood has
    neighbourhood: float = option(0.01, above=0, at_most=1)

    def sources(self, span: Span) -> NDArray[np.int64]:
        """Return the sources. A uniform number moved a random way around the circle is still uniform."""
        chance = span.uniforms(self.seed, EXTRA)
        near = span.uniforms(self.seed, KEYS) + self.neighbourhood * span.uniforms(self.seed, EXTRA + 1)
        related = span.uniforms(self.seed, EXTRA + 2) < self.correlation
        return self.law.quantile(np.where(related, near % 1.0, chance))

    def extra_columns(self, span: Span) -> Mapping[str, pa.Array]:
        return {"source": pa.array(self.sources(span))}
