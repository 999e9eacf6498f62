"""What a splitter is: a pure function from keys and loads to a channel for each tuple."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from unskew.errors import ArgumentError, require_fields
from unskew.registry import Registry
from unskew.sketches.base import Column, hash_column
from unskew.splitters.choices import Channels, Hashes, Loads, check_workers, salts

MOST_TUPLES = 2**42  # a load and a place in a list of candidates share one word

SPLITTERS: Registry[Splitter] = Registry("scheme", "unskew.splitters")


@dataclass(frozen=True, eq=False)
class Routed:
    """Where some tuples went. Hand loads and memory in again with the next tuples."""

    channels: Channels  # of each tuple
    loads: Loads  # tuples per channel, those before included
    memory: Any = None  # what the scheme remembers beyond the loads; None for most


@dataclass(frozen=True, kw_only=True)
class Splitter(ABC):
    """Chooses a channel for every tuple, one after the other.

    Subclasses are frozen dataclasses whose fields are the parameters. They carry a `name`, under which they are
    registered, and a `summary` (one line). Splitters are pure and deterministic: the same tuples, loads and memory give
    the same channels, so a task that runs again routes alike. Cutting a stream into several calls changes nothing if
    each call gets the loads and the memory that the one before returned.

    Parameters
    ----------
    seed
        Chooses one of many equally good families of hash functions.
    """

    name: ClassVar[str] = "unnamed"
    summary: ClassVar[str] = ""
    estimates_load: ClassVar[bool] = True  # whether the choice depends on the loads that a source knows
    shares_memory: ClassVar[bool] = False  # whether sources must agree on the owner of each key, in a shared table
    online: ClassVar[bool] = True  # whether a tuple is routed without knowing those that come after it

    seed: int = 0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            SPLITTERS.add(cls.name, cls)

    def __post_init__(self) -> None:
        require_fields(self)
        salts(self.seed, 0)

    def most_channels(self, workers: int) -> int:
        """Return on how many channels a key may live: what it costs in memory, and how many partials are merged."""
        return 1

    def route(self, hashes: Column, loads: ArrayLike, memory: Any = None) -> Routed:
        """Choose a channel for each tuple, in order.

        Parameters
        ----------
        hashes
            64-bit hashes of the tuples' keys.
        loads
            Tuples per channel that the source knows of so far; their number is the number of channels. Not changed.
        memory
            The memory that the call before returned.
        """
        return self._route(hash_column(hashes), own_loads(loads), memory)

    @abstractmethod
    def _route(self, hashes: Hashes, loads: Loads, memory: Any) -> Routed:
        """Choose; `loads` is the callee's own, to be brought up to date."""


def own_loads(loads: ArrayLike) -> Loads:
    """Return a copy of the loads, validated."""
    own = np.array(loads, np.int64)
    if own.ndim != 1:
        raise ArgumentError("loads must have one number per channel", got=own.shape)
    check_workers(len(own))
    if own.min() < 0 or own.max() > MOST_TUPLES:
        raise ArgumentError(f"loads must be between 0 and {MOST_TUPLES}", got=(int(own.min()), int(own.max())))
    return own


def splitter(name: str, **parameters: Any) -> Splitter:
    """Return the scheme of that name with the given parameters.

    Examples
    --------
    >>> splitter("greedy-d", choices=3)
    GreedyD(seed=0, choices=3, distinct=False)
    >>> splitter("pkgs")
    Traceback (most recent call last):
    unskew.errors.ArgumentError: there is no scheme of that name, got 'pkgs'. Hint: did you mean 'pkg'.
    """
    return SPLITTERS.make(name, **parameters)
