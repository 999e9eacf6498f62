"""Splitters: a channel for every tuple, for operators that can merge what several channels know of a key.

Nasir et al., "Partial Key Grouping: Load-Balanced Partitioning of Distributed Streams", and "When two choices are not
enough: balancing at scale in distributed stream processing", ICDE 2016.
"""

from __future__ import annotations

from unskew.splitters.base import SPLITTERS, Routed, Splitter, splitter
from unskew.splitters.choices import candidates
from unskew.splitters.split_keys import SplitKeys

__all__ = ["SPLITTERS", "Routed", "SplitKeys", "Splitter", "candidates", "splitter"]
