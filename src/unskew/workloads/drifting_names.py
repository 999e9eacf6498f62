"""What the stand-ins for Fang's data share: named keys by Zipf's law, and a law of its own for every interval."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.workloads.base import Seeded
from unskew.workloads.discrete import DiscreteTable
from unskew.workloads.span import KEYS, Span


@dataclass(frozen=True, kw_only=True)
class DriftingNames(Seeded):
    """Keys with made-up names, drawn from the `probabilities` of the interval; subclasses say how those drift."""

    prefix: ClassVar[str]
    digits: ClassVar[int]

    exponent: float
    key_count: int
    interval_seconds: float = 86_400.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("exponent", self.exponent, 0 <= self.exponent < 100, "0 or more")
        self.check("keys", self.key_count, 0 < self.key_count <= 10**6, "in 1 .. 1,000,000")

    @property
    def domain(self) -> int:
        """The number of keys."""
        return self.key_count

    @property
    def key_type(self) -> pa.DataType:
        """Names are strings."""
        return pa.string()

    def names(self, ids: NDArray[np.int64]) -> pa.Array:
        """Return made-up names such as ``word-000042``."""
        return _numbered(self.prefix, self.key_count, self.digits).take(pa.array(ids))

    def draw(self, span: Span) -> NDArray[np.int64]:
        """Return ids."""
        return _table(self, span.interval).quantile(span.uniforms(self.seed, KEYS))

    @abstractmethod
    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        """Return the law of one interval."""


@lru_cache(maxsize=8)
def _table(workload: DriftingNames, interval: int) -> DiscreteTable:
    return DiscreteTable(workload.probabilities(interval))


@lru_cache(maxsize=4)
def _numbered(prefix: str, count: int, digits: int) -> pa.Array:
    return pa.array([f"{prefix}{number:0{digits}d}" for number in range(count)])
