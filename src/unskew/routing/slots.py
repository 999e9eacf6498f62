"""Which channel owns which slot. As in a consistent hash, a new channel takes its share and nothing else moves."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

Channels = NDArray[np.int32]

_MIX_1, _MIX_2, _MIX_3 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@lru_cache(maxsize=64)
def balanced_slots(slots: int, channels: int) -> Channels:
    """Return the owner of each slot, with ``floor(slots / channels)`` slots or one more for every channel.

    The result depends only on the two arguments, whatever the history of a table. Growing from n to n + 1 channels
    moves only slots to channel n; shrinking moves only the slots of the channel that leaves. Costs
    O(slots * channels) once; the array is cached and read-only.
    """
    owners = resize_slots(np.zeros(slots, np.int32), 1, channels)
    owners.flags.writeable = False
    return owners


def add_channel(owners: Channels, channels: int) -> Channels:
    """Give the last of `channels` channels its ``floor(slots / channels)`` slots, from those that hold the most."""
    newcomer = channels - 1
    keep = np.bincount(owners, minlength=newcomer).astype(np.int64)
    _kernel_lower_the_tallest(keep, len(owners) // channels)
    result = owners.copy()
    _kernel_take(result, _preference(len(owners), newcomer), keep, newcomer)
    return result


def resize_slots(owners: Channels, channels_before: int, channels: int) -> Channels:
    """Return `owners` for another number of channels, moving only slots that have to move.

    Shrinking sends the slots of leaving channels to where `balanced_slots` puts them, so that growing and shrinking
    back restores a table that nobody edited in between.
    """
    for n in range(channels_before + 1, channels + 1):
        owners = add_channel(owners, n)
    if channels < channels_before:
        owners = np.where(owners >= channels, balanced_slots(len(owners), channels), owners).astype(np.int32)
    return owners


def _preference(slots: int, channel: int) -> NDArray[np.int64]:
    """Return the slots in a pseudo-random order of the channel's own (splitmix64 of slot and channel)."""
    with np.errstate(over="ignore"):
        z = np.arange(slots, dtype=np.uint64) + np.uint64(channel) * np.uint64(1 << 32) + _MIX_1
        z = (z ^ (z >> np.uint64(30))) * _MIX_2
        z = (z ^ (z >> np.uint64(27))) * _MIX_3
    return np.argsort(z ^ (z >> np.uint64(31)), kind="stable")


@njit(cache=True)
def _kernel_lower_the_tallest(counts: NDArray[np.int64], taken: int) -> None:
    for _ in range(taken):
        counts[np.argmax(counts)] -= 1


@njit(cache=True)
def _kernel_take(owners: Channels, order: NDArray[np.int64], keep: NDArray[np.int64], newcomer: int) -> None:
    held = np.zeros(len(keep), np.int64)
    for slot in owners:
        held[slot] += 1
    for slot in order:
        owner = owners[slot]
        if held[owner] > keep[owner]:
            held[owner] -= 1
            owners[slot] = newcomer
