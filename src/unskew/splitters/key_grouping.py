"""Key grouping: a hash decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unskew.splitters.base import Routed, Splitter
from unskew.splitters.choices import Hashes, Loads, candidates


@dataclass(frozen=True, kw_only=True)
class KeyGrouping(Splitter):
    """Sends every tuple of a key to one channel, the key's first choice (KG, or H, in the paper).

    Needs to know nothing. No channel can have less than the hottest key's share.

    References
    ----------
    Nasir et al., Partial Key Grouping, section 2.

    Examples
    --------
    >>> routed = KeyGrouping().route(np.array([1, 2, 1, 1]), loads=np.zeros(10))
    >>> routed.channels.tolist(), routed.loads.tolist()
    ([7, 2, 7, 7], [0, 0, 1, 0, 0, 0, 0, 3, 0, 0])
    """

    name: ClassVar[str] = "key"
    summary: ClassVar[str] = "key grouping: a hash decides, a key has one channel"
    estimates_load: ClassVar[bool] = False

    def _route(self, hashes: Hashes, loads: Loads, memory: Any) -> Routed:
        channels = candidates(hashes, len(loads), 1, seed=self.seed)[:, 0]
        return Routed(channels, loads + np.bincount(channels, minlength=len(loads)))
