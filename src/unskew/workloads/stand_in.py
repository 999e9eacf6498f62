"""Stand-ins for data sets of which little more is published than their size and their hottest key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.workloads.base import Keyed, Seeded, exponent_option, keys_option, option, shuffled
from unskew.workloads.fitting import Fit, fit
from unskew.workloads.power_law import PowerLaw, power_law
from unskew.workloads.span import DRIFT, KEYS, Span


@dataclass(frozen=True, kw_only=True)
class StandIn(Seeded, name="stand-in"):
    """A Zipf law fitted to (messages, distinct keys, share of the top key).

    A run of fewer messages keeps the exponent and the top key's share, and meets fewer keys.

    Source: Nasir et al., Partial Key Grouping, Table 1.

    >>> news = StandIn(messages=1_000_000, key_count=50_000, top_share=0.05)
    >>> news.fit
    Fit(universe=50674, exponent=0.9009...)
    >>> news.keys(interval=0, n=5).tolist()
    [34038, 94, 6185, 5, 339]
    """

    messages: int = 1_000_000  # length of the data set
    key_count: int = keys_option(50_000)  # distinct keys that it has
    top_share: float = 0.05  # share of the messages that its hottest key has

    @property
    def fit(self) -> Fit:
        """Universe and exponent; solved at first use."""
        return fit(self.messages, self.key_count, self.top_share)

    @property
    def law(self) -> PowerLaw:
        return power_law(self.fit.exponent, self.fit.universe)

    @property
    def domain(self) -> int:
        """The universe: all keys that may appear, more than are expected to."""
        return self.law.keys

    def draw(self, span: Span) -> NDArray[np.int64]:
        return self.law.quantile(span.uniforms(self.seed, KEYS))

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        return self.law.probabilities()


@dataclass(frozen=True, kw_only=True)
class Wikipedia(StandIn, name="wp"):
    """Page visits of Wikipedia on a day: 22 million, 2.9 million pages, the top one 9.32 %.

    Has more pages of a single visit than the original; see `WikipediaPinned` where memory matters.
    """

    messages: int = 22_000_000
    key_count: int = keys_option(2_900_000)
    top_share: float = 0.0932


@dataclass(frozen=True, kw_only=True)
class Twitter(StandIn, name="tw"):
    """Words of tweets: 1.2 billion, 31 million words, the top one 2.67 %."""

    messages: int = 1_200_000_000
    key_count: int = keys_option(31_000_000)
    top_share: float = 0.0267


@dataclass(frozen=True, kw_only=True)
class LiveJournal(StandIn, name="lj"):
    """Edges of the LiveJournal graph by destination: 69 million, 4.9 million vertices, the top one 0.29 %."""

    messages: int = 69_000_000
    key_count: int = keys_option(4_900_000)
    top_share: float = 0.0029


@dataclass(frozen=True, kw_only=True)
class Slashdot0811(StandIn, name="sl1"):
    """Edges of the Slashdot graph of November 2008: 905 thousand, 77 thousand vertices, the top one 3.28 %."""

    messages: int = 905_000
    key_count: int = keys_option(77_000)
    top_share: float = 0.0328


@dataclass(frozen=True, kw_only=True)
class Slashdot0902(StandIn, name="sl2"):
    """Edges of the Slashdot graph of February 2009: 948 thousand, 82 thousand vertices, the top one 3.11 %."""

    messages: int = 948_000
    key_count: int = keys_option(82_000)
    top_share: float = 0.0311


@dataclass(frozen=True, kw_only=True)
class Cashtags(StandIn, name="ct"):
    """Ticker symbols in tweets, drifting: 690 thousand, 2.9 thousand symbols, the top one 3.29 %.

    An interval is a day. Every week the hottest keys change places among themselves.

    >>> cashtags = Cashtags()
    >>> int(cashtags.probabilities(0).argmax()), int(cashtags.probabilities(7).argmax())
    (0, 45)
    """

    interval_seconds: float = option(86_400.0, above=0)
    messages: int = 690_000
    key_count: int = keys_option(2_900)
    top_share: float = 0.0329
    week_intervals: int = option(7, above=0)  # intervals between two changes
    reshuffled: int = option(50, at_least=0)  # how many of the hottest keys take part

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("reshuffled", self.reshuffled <= self.key_count, "in 0 .. keys")

    def draw(self, span: Span) -> NDArray[np.int64]:
        return self._key_of_rank(span.interval)[super().draw(span)]

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        named = np.empty(self.domain)
        named[self._key_of_rank(interval)] = self.law.probabilities()
        return named

    def _key_of_rank(self, interval: int) -> NDArray[np.int64]:
        week = interval // self.week_intervals
        keys = np.arange(self.domain)
        if week:
            keys[: self.reshuffled] = shuffled(self.reshuffled, self.seed, week, DRIFT)
        return keys


@dataclass(frozen=True, kw_only=True)
class WikipediaPinned(Keyed, name="wp-pinned"):
    """Wikipedia's page visits with as many rarely visited pages as the original.

    Key 0 is pinned at its share and the others follow Zipf's law. That gives the counters that the paper reports for
    key grouping and for shuffle grouping, which the pure Zipf law of `Wikipedia` does not.

    Source: Nasir et al., Partial Key Grouping, Table 1 and section 6.6.

    >>> WikipediaPinned().keys(interval=0, n=5).tolist()
    [2405131, 765, 309490, 3, 5873]
    """

    top_share: float = option(0.0932, at_least=0, below=1)  # share of key 0
    exponent: float = exponent_option(0.88)  # of the other keys
    key_count: int = keys_option(3_800_000, above=1)

    def draw(self, span: Span) -> NDArray[np.int64]:
        uniforms = span.uniforms(self.seed, KEYS)
        rest = np.maximum(uniforms - self.top_share, 0.0) / (1.0 - self.top_share)
        ranks = power_law(self.exponent, self.key_count - 1).quantile(rest)
        return np.where(uniforms < self.top_share, 0, ranks + 1)

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        others = power_law(self.exponent, self.key_count - 1).probabilities() * (1 - self.top_share)
        return np.concatenate(([self.top_share], others))
