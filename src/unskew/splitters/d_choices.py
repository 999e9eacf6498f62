"""D-Choices and W-Choices: as many choices for the hottest keys as it takes, or all channels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.errors import ArgumentError, StatisticsError
from unskew.splitters.choices import Hashes
from unskew.splitters.heavy import HeavyKeys
from unskew.splitters.split_keys import SplitKeys

_TRIED_AT_ONCE = 8


@dataclass(frozen=True, kw_only=True)
class DChoices(HeavyKeys):
    """Sends tuples of the head to the least loaded of d candidates, those of the tail to the less loaded of two.

    How many choices d the head needs is computed from the shares of its keys; see `number_of_choices`. Where no d
    below the number of workers is enough, keys of the head may go everywhere, as with `WChoices`. Only the few keys of
    the head, at most five per worker, cost more memory than with two choices. Sections III and IV of "When two choices
    are not enough".

    Parameters
    ----------
    tolerated_share
        Share of the tuples by which a set of channels may be overfull in the computation of d (epsilon).

    Examples
    --------
    >>> from unskew.splitters.pkg import PartialKeyGrouping
    >>> tuples = np.random.default_rng(seed=0).zipf(1.5, size=100_000)
    >>> two, many = (scheme.route(tuples, np.zeros(20)).loads for scheme in (PartialKeyGrouping(), DChoices()))
    >>> [round(float(loads.max() / loads.mean()), 2) for loads in (two, many)]
    [3.91, 1.0]
    """

    name: ClassVar[str] = "d-choices"
    summary: ClassVar[str] = "two choices, and for the hottest keys as many as computed"

    tolerated_share: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.tolerated_share < 1:
            raise ArgumentError("tolerated_share must be from 0 to below 1", where=self.name, got=self.tolerated_share)

    def most_channels(self, workers: int) -> int:
        return workers

    def split(self, hashes: Hashes, shares: NDArray[np.float64], workers: int) -> SplitKeys:
        choices = number_of_choices(shares, workers, tolerated_share=self.tolerated_share)
        if choices >= workers:
            return SplitKeys.everywhere(hashes, workers)
        return SplitKeys.by_hash(hashes, workers, choices, seed=self.seed, distinct=self.distinct)


@dataclass(frozen=True, kw_only=True)
class WChoices(HeavyKeys):
    """Sends tuples of the head to the least loaded of all channels, those of the tail to the less loaded of two.

    The best balance that splitting can give, at the price of state of each key of the head on every channel; see
    `DChoices` for fewer. Section III of "When two choices are not enough".

    Examples
    --------
    >>> tuples = np.random.default_rng(seed=0).zipf(1.5, size=100_000)
    >>> loads = WChoices().route(tuples, np.zeros(20)).loads
    >>> bool(loads.max() - loads.mean() < 2)
    True
    """

    name: ClassVar[str] = "w-choices"
    summary: ClassVar[str] = "two choices, and for the hottest keys all channels"

    def most_channels(self, workers: int) -> int:
        return workers

    def split(self, hashes: Hashes, shares: NDArray[np.float64], workers: int) -> SplitKeys:
        return SplitKeys.everywhere(hashes, workers)


def number_of_choices(head_shares: ArrayLike, workers: int, *, tolerated_share: float = 1e-4) -> int:
    """Return the least number of choices for the head with which no set of channels has to be overfull.

    For each h, the h hottest keys together have candidates that make up an expected part
    ``b = 1 - (1 - 1 / workers) ** (h * d)`` of the channels. These carry the h keys, and the tuples of all other keys
    whose choices happen to lie among them, ``b ** d`` of the rest of the head and ``b ** 2`` of the tail. That must not
    exceed their part of the channels by more than `tolerated_share`.

    `head_shares` are the shares of the keys of the head, the greatest first, `tolerated_share` is epsilon in section IV
    of the paper. The answer is at least 2 and at least the top key's share times the workers, and `workers` where fewer
    are not enough.

    Examples
    --------
    Zipf's law with exponent 1.2 over a million keys, on a hundred channels:

    >>> shares = np.arange(1, 1_000_001) ** -1.2
    >>> shares /= shares.sum()
    >>> head = shares[shares >= 1 / 500]
    >>> len(head), number_of_choices(head, workers=100)
    (44, 23)
    """
    shares = np.asarray(head_shares, np.float64)
    if len(shares) and (shares.min() < 0 or (np.diff(shares) > 0).any() or shares.sum() > 1 + 1e-9):
        raise StatisticsError("shares of the head must fall, and make up at most 1")
    if not len(shares) or workers < 3:
        return min(2, workers)
    hottest, keys = np.cumsum(shares), np.arange(1, len(shares) + 1)
    for first in range(max(2, math.ceil(shares[0] * workers)), workers, _TRIED_AT_ONCE):
        choices = np.arange(first, min(first + _TRIED_AT_ONCE, workers))[:, np.newaxis]
        covered = 1 - (1 - 1 / workers) ** (keys * choices)
        carried = hottest + covered**choices * (hottest[-1] - hottest) + covered**2 * (1 - hottest[-1])
        enough = (carried <= covered + tolerated_share).all(axis=1)
        if enough.any():
            return int(choices[enough.argmax(), 0])
    return workers
