"""What the stand-ins for Fang's data share: named keys by Zipf's law, and a law of its own for every interval."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.workloads.base import Keyed, exponent_option, keys_option, option
from unskew.workloads.discrete import DiscreteTable
from unskew.workloads.span import KEYS, Span

MOST_KEYS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class DriftingNames(Keyed):
    """Keys with made-up names such as ``word-000042``, drawn from the `probabilities` of the interval."""

    prefix: ClassVar[str]
    digits: ClassVar[int]

    exponent: float = exponent_option(1.0)
    key_count: int = keys_option(MOST_KEYS, above=0, at_most=MOST_KEYS)
    interval_seconds: float = option(86_400.0, above=0)

    @property
    def key_type(self) -> pa.DataType:
        return pa.string()

    def names(self, ids: NDArray[np.int64]) -> pa.Array:
        return _numbered(self.prefix, self.key_count, self.digits).take(pa.array(ids))

    def draw(self, span: Span) -> NDArray[np.int64]:
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
