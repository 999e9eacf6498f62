"""80 % of the rows on 20 % of the keys: the skew of Flux's experiments, in two readings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.workloads.base import Keyed, keys_option, option, shuffled
from unskew.workloads.span import EXTRA, KEYS, Span


@dataclass(frozen=True, kw_only=True)
class SelfSimilar(Keyed, name="self-similar"):
    """80/20 within every part: of the hottest 20 % again 20 % have 80 %, and so on.

    The hottest of 16,384 groups has 26 %. The seed decides which key is how hot.

    Source: Shah et al., Flux, section 6. Gray et al., Quickly generating billion-record synthetic databases, SIGMOD
    1994.

    >>> groups = SelfSimilar()
    >>> float(groups.probabilities().max().round(2))
    0.26
    >>> groups.keys(interval=0, n=5).tolist()
    [1981, 5483, 12263, 8584, 5555]
    """

    key_count: int = keys_option(16_384)  # how many keys there are; Flux has 16K groups
    # part of the rows that the hottest ``1 - share`` of the keys have
    share: float = option(0.8, at_least=0.5, below=1)

    def draw(self, span: Span) -> NDArray[np.int64]:
        ranks = self.key_count * span.uniforms(self.seed, KEYS) ** (1 / self._exponent)
        return shuffled(self.key_count, self.seed)[ranks.astype(np.int64)]

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        below = (np.arange(self.key_count + 1) / self.key_count) ** self._exponent
        named = np.empty(self.key_count)
        named[shuffled(self.key_count, self.seed)] = np.diff(below)
        return named

    @property
    def _exponent(self) -> float:
        return math.log(self.share) / math.log(1 - self.share)


@dataclass(frozen=True, kw_only=True)
class TwoClass(Keyed, name="two-class"):
    """80/20 once: 20 % of the keys share 80 % of the rows evenly, the other 80 % of the keys share the rest.

    Source: Shah et al., Flux, section 6: the milder reading of its 80/20 skew.

    >>> groups = TwoClass(key_count=10)
    >>> sorted(groups.probabilities().round(3).tolist())
    [0.025, 0.025, 0.025, 0.025, 0.025, 0.025, 0.025, 0.025, 0.4, 0.4]
    """

    key_count: int = keys_option(16_384, above=1)  # how many keys there are
    share: float = option(0.8, at_least=0.5, below=1)  # part of the rows that the hot ``1 - share`` of the keys have

    def draw(self, span: Span) -> NDArray[np.int64]:
        hot = span.uniforms(self.seed, EXTRA) < self.share
        within = span.uniforms(self.seed, KEYS) * np.where(hot, self._hot_keys, self.key_count - self._hot_keys)
        ranks = within.astype(np.int64) + np.where(hot, 0, self._hot_keys)
        return shuffled(self.key_count, self.seed)[ranks]

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        order = shuffled(self.key_count, self.seed)
        named = np.full(self.key_count, (1 - self.share) / (self.key_count - self._hot_keys))
        named[order[: self._hot_keys]] = self.share / self._hot_keys
        return named

    @property
    def _hot_keys(self) -> int:
        return max(1, round(self.key_count * (1 - self.share)))
