"""The routing table: which channel owns which key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from unskew.errors import RoutingError, require_number
from unskew.routing.lookup import HashIndex, slot_of
from unskew.routing.moves import Moves
from unskew.routing.slots import balanced_slots, resize_slots

Hashes = NDArray[np.int64]
Channels = NDArray[np.int32]

DEFAULT_SLOTS = 4096
MOST_SLOTS = 1 << 24  # every record and every task holds the table


@dataclass(frozen=True, eq=False)
class RoutingTable:
    """Sends every key to a channel: ``split[key]``, else ``explicit[key]``, else ``slots[hash(key) mod S]``.

    Immutable: every edit returns a new table with the next `version`. Keys are known by their 64-bit hash (Spark's
    ``xxhash64``, see `unskew.hashing`); two keys that share a hash travel together, which is harmless.

    Parameters
    ----------
    channels
        How many channels there are; owners are numbers in ``0..channels-1``.
    slots
        Owner of each slot. The number of slots never changes.
    explicit_hashes, explicit_channels
        Owners of single keys, by hash; kept sorted by hash.
    split
        Channels of keys that several channels share, by hash, for operators that can merge partial states. The first
        channel keeps the key when the split ends.
    version
        Grows by one with every edit.
    names
        Readable names of keys, by hash, where known.

    Examples
    --------
    >>> table = RoutingTable.initial(channels=4).with_explicit([7], [0])
    >>> table.lookup([7, 8]).tolist(), table.home([7, 8]).tolist(), table.version
    ([0, 3], [1, 3], 1)
    """

    channels: int
    slots: Channels
    explicit_hashes: Hashes = field(default_factory=lambda: np.empty(0, np.int64))
    explicit_channels: Channels = field(default_factory=lambda: np.empty(0, np.int32))
    split: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    version: int = 0
    names: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_number("channels", self.channels)
        require_number("version", self.version)
        slots, hashes = _numbers(self.slots, np.int32, "slots"), _numbers(self.explicit_hashes, np.int64, "hashes")
        owners = _numbers(self.explicit_channels, np.int32, "explicit channels")
        if hashes.shape != owners.shape:
            raise RoutingError("explicit entries need one channel per hash", got=(len(hashes), len(owners)))
        order = np.argsort(hashes, kind="stable")
        split = _split(self.split)
        if not isinstance(self.names, Mapping):
            raise RoutingError("names must map hashes to words", got=self.names)
        for name, value in {
            "slots": _frozen(slots),
            "explicit_hashes": _frozen(hashes[order]),
            "explicit_channels": _frozen(owners[order]),
            "split": split,
        }.items():
            object.__setattr__(self, name, value)
        self._validate()

    @classmethod
    def initial(cls, channels: int, slots: int = DEFAULT_SLOTS) -> RoutingTable:
        """Return a table without explicit or split keys, whose slots are dealt out evenly."""
        _check_size(channels, slots)
        return cls(channels, balanced_slots(slots, channels))

    def home(self, hashes: ArrayLike) -> Channels:
        """Return the channel that the slots alone give each key."""
        return self.slots[slot_of(_column(hashes), len(self.slots))]

    def lookup(self, hashes: ArrayLike) -> Channels:
        """Return the channel that owns each key; for a split key, its first candidate."""
        return self._index.lookup(_column(hashes), self.slots)

    @property
    def split_keys(self) -> Hashes:
        return np.fromiter(self.split, np.int64, len(self.split))

    @cached_property
    def listed_keys(self) -> Hashes:
        """Return the keys with an entry of their own, explicit or split, which do not move with their slot."""
        return np.append(self.explicit_hashes, self.split_keys)

    def with_slots(self, owners: ArrayLike) -> RoutingTable:
        return replace(self, slots=_numbers(owners, np.int32, "slots"), version=self.version + 1)

    def with_explicit(self, hashes: ArrayLike, channels: ArrayLike) -> RoutingTable:
        """Return a table with exactly these explicit entries; those of split keys are left out."""
        keys, owners = _numbers(hashes, np.int64, "hashes"), _numbers(channels, np.int32, "explicit channels")
        if self.split and len(keys) == len(owners):
            whole = ~np.isin(keys, self.split_keys)
            keys, owners = keys[whole], owners[whole]
        return replace(self, explicit_hashes=keys, explicit_channels=owners, version=self.version + 1)

    def with_split(self, split: Mapping[int, tuple[int, ...]]) -> RoutingTable:
        """Return a table with exactly these split keys; their explicit entries are dropped."""
        split = _split(split)
        keep = ~np.isin(self.explicit_hashes, np.fromiter(split, np.int64, len(split)))
        hashes, owners = self.explicit_hashes[keep], self.explicit_channels[keep]
        version = self.version + 1
        return replace(self, explicit_hashes=hashes, explicit_channels=owners, split=split, version=version)

    def resize(self, channels: int) -> RoutingTable:
        """Return a table for another number of channels that moves only what has to move.

        Growing gives each new channel its share of the slots; entries stay. Shrinking sends the slots of leaving
        channels to where a fresh table has them, drops explicit entries that point at them, and takes them out of
        split entries.
        """
        _check_size(channels, len(self.slots))
        if channels == self.channels:
            return self
        stays = self.explicit_channels < channels
        remaining = {key: tuple(c for c in candidates if c < channels) for key, candidates in self.split.items()}
        ended = {key: left[0] for key, left in remaining.items() if len(left) == 1}
        return RoutingTable(
            channels,
            resize_slots(self.slots, self.channels, channels),
            np.append(self.explicit_hashes[stays], np.array(list(ended), np.int64)),
            np.append(self.explicit_channels[stays], np.array(list(ended.values()), np.int32)),
            {key: left for key, left in remaining.items() if len(left) > 1},
            self.version + 1,
        )

    def moves_to(self, other: RoutingTable) -> Moves:
        """Return what has to move when `other` replaces this table.

        Exact without knowing the keys: a slot's move stands for all keys of that slot that neither table lists. State
        on a channel that no longer shares a split key goes to the key's first channel; a channel that newly shares one
        starts with nothing.
        """
        if not isinstance(other, RoutingTable):
            raise RoutingError("only a table can replace a table", got=other)
        if len(other.slots) != len(self.slots):
            what, hint = (
                "the tables have different numbers of slots",
                "the number of slots is fixed when a stream starts",
            )
            raise RoutingError(what, got=(len(self.slots), len(other.slots)), hint=hint)
        slots = np.flatnonzero(self.slots != other.slots).astype(np.int32)
        listed = np.union1d(self.explicit_hashes, other.explicit_hashes)
        shared = sorted({*self.split, *other.split})
        listed = np.setdiff1d(listed, np.array(shared, np.int64))
        source, target = self.lookup(listed), other.lookup(listed)
        moved = source != target
        merged = [(key, c, other.candidates(key)[0]) for key in shared for c in self._leaving(key, other)]
        key, old, new = np.array(merged, np.int64).reshape(-1, 3).T
        return Moves(
            slots,
            self.slots[slots],
            other.slots[slots],
            np.append(listed[moved], key),
            np.append(source[moved], old.astype(np.int32)),
            np.append(target[moved], new.astype(np.int32)),
        )

    def candidates(self, key_hash: int) -> tuple[int, ...]:
        """Return the channels that may hold state of one key: several if it is split, else its owner."""
        return self.split.get(key_hash) or (int(self.lookup([key_hash])[0]),)

    def entries(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return the keys with entries of their own, by name where known, and the channels of each.

        >>> RoutingTable(2, [0, 1], [7], [1], names={7: "ada"}).entries()
        [('ada', (1,))]
        """
        owners = zip(self.explicit_hashes.tolist(), self.explicit_channels.tolist(), strict=True)
        listed: list[tuple[int, tuple[int, ...]]] = [(key, (channel,)) for key, channel in owners]
        listed += self.split.items()
        return [(self.names.get(key, str(key)), channels) for key, channels in listed]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RoutingTable) and self.version == other.version and self.routes_like(other)

    def __hash__(self) -> int:
        return hash((self.version, self.channels, self.slots.tobytes()))

    def routes_like(self, other: RoutingTable) -> bool:
        """Tell whether both tables hold the same entries, whatever their versions."""
        return (
            self.channels == other.channels
            and np.array_equal(self.slots, other.slots)
            and np.array_equal(self.explicit_hashes, other.explicit_hashes)
            and np.array_equal(self.explicit_channels, other.explicit_channels)
            and self.split == other.split
        )

    @cached_property
    def _index(self) -> HashIndex:
        first = np.array([candidates[0] for candidates in self.split.values()], np.int32)
        return HashIndex(self.listed_keys, np.append(self.explicit_channels, first))

    def _leaving(self, key_hash: int, other: RoutingTable) -> list[int]:
        return [c for c in self.candidates(key_hash) if c not in other.candidates(key_hash)]

    def _validate(self) -> None:
        _check_size(self.channels, len(self.slots))
        _check_channels(self.slots, self.channels, "slot")
        repeated = np.flatnonzero(self.explicit_hashes[1:] == self.explicit_hashes[:-1])
        if len(repeated):
            raise RoutingError("a key has two explicit entries", got=int(self.explicit_hashes[repeated[0]]))
        _check_channels(self.explicit_channels, self.channels, "explicit entry")
        for key, candidates in self.split.items():
            where = f"split entry {key}"
            _check_channels(np.array(candidates, np.int32), self.channels, where)
            if len(candidates) < 2 or len(set(candidates)) < len(candidates):
                raise RoutingError("a split key needs two or more different channels", where=where, got=candidates)
            if key in self.explicit_hashes:
                raise RoutingError("a key is both explicit and split", got=key, hint="keep one of the two entries")


def _frozen(array: NDArray[np.generic]) -> NDArray[np.generic]:
    array.flags.writeable = False
    return array


def _numbers(values: Any, kind: DTypeLike, what: str) -> NDArray[Any]:
    """Return a copy of whole numbers as an array of that type; raise `RoutingError` unless they are and fit."""
    try:
        given = np.asarray(values)
    except ValueError:  # lists of unequal length
        given = np.asarray(None)
    whole = given.dtype.kind in "iu" or (
        given.dtype.kind == "f" and bool((np.isfinite(given) & (np.trunc(given) == given)).all())
    )
    if given.ndim != 1 or (given.size and not whole):
        raise RoutingError(f"{what} must be a list of whole numbers", got=values)
    if given.dtype != kind and given.size:
        limits = np.iinfo(np.dtype(kind))
        if int(given.min()) < limits.min or int(given.max()) > limits.max:
            raise RoutingError(f"{what} must have at most {limits.bits} bits", got=(int(given.min()), int(given.max())))
    return given.astype(kind)


def _column(hashes: Any) -> Hashes:
    """Return hashes as a contiguous column, without a copy where they are one."""
    if isinstance(hashes, np.ndarray) and hashes.dtype == np.int64 and hashes.ndim == 1:
        return np.ascontiguousarray(hashes)
    return _numbers(hashes, np.int64, "hashes")


def _split(given: Any) -> dict[int, tuple[int, ...]]:
    """Return the split keys in the order of their hashes."""
    if not isinstance(given, Mapping):
        raise RoutingError("split must map hashes to channels", got=given)
    keys = np.sort(_numbers(list(given), np.int64, "hashes of split keys")).tolist()
    return {key: tuple(_numbers(given[key], np.int32, "channels of a split key").tolist()) for key in keys}


def _check_size(channels: int, slots: int) -> None:
    require_number("channels", channels)
    require_number("slots", slots, most=MOST_SLOTS)
    if channels < 1:
        raise RoutingError("a table needs at least one channel", got=channels)
    if slots < channels:
        raise RoutingError(f"{slots} slots cannot serve {channels} channels", hint=f"use at least {channels} slots")


def _check_channels(owners: Channels, channels: int, where: str) -> None:
    bad = np.flatnonzero((owners < 0) | (owners >= channels))
    if len(bad):
        channel = int(owners[bad[0]])
        hint = f"resize to {channel + 1} channels first" if channel > 0 else "channels count from 0"
        raise RoutingError(f"channel {channel} is not in 0..{channels - 1}", where=f"{where} {bad[0]}", hint=hint)
