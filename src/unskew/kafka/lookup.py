"""Finds a key's route inside a query with one look-up: no join, no broadcast, no extra job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.hashing import xxhash64
from unskew.kafka.decision import Route
from unskew.kafka.snapshot import to_text

_LAST_SHIFT = 40


@dataclass(frozen=True)
class Displaced:
    """A hash table without collisions.

    The low bits of a hash choose a bucket. The bucket says by how many bits to shift the hash; its low bits then choose
    the place. So a look-up costs two reads, however many hashes there are.
    """

    shifts: tuple[int, ...]  # of each bucket; their number is a power of two
    places: tuple[int, ...]  # the number of the hash in each place, -1 if none; a power of two, 4 to 16 a bucket


def displace(hashes: NDArray[np.int64]) -> Displaced:
    """Lay out distinct hashes; a few milliseconds for a thousand.

    Three of four places are free, and a bucket has dozens of tries, so hashes that look random always fit.
    """
    unsigned = [hashed % (1 << 64) for hashed in hashes.tolist()]
    buckets = 1 << max(0, len(unsigned) - 1).bit_length()
    for places_per_bucket in (4, 8, 16):
        found = _displace(unsigned, buckets, places_per_bucket * buckets)
        if found is not None:
            return found
    raise ArgumentError("these do not look like hashes: many agree in nearly all bits", got=f"{len(unsigned)} of them")


def _displace(unsigned: Sequence[int], buckets: int, size: int) -> Displaced | None:
    members: dict[int, list[int]] = {}
    for number, bits in enumerate(unsigned):
        members.setdefault(bits % buckets, []).append(number)
    shifts, places = [0] * buckets, [-1] * size
    for bucket, numbers in sorted(members.items(), key=lambda each: -len(each[1])):
        for shift in range(buckets.bit_length() - 1, _LAST_SHIFT):
            wanted = {unsigned[number] >> shift & size - 1: number for number in numbers}
            if len(wanted) == len(numbers) and all(places[place] < 0 for place in wanted):
                break
        else:
            return None
        shifts[bucket] = shift
        for place, number in wanted.items():
            places[place] = number
    return Displaced(tuple(shifts), tuple(places))


@dataclass(frozen=True)
class RouteTable:
    """Routes as constants of a query: columns by place, each as JSON.

    >>> table = RouteTable.of({b"ada": Route(3, 17)})
    >>> len(table.keys), table.columns["shifts"]
    (4, '[0]')
    """

    keys: tuple[bytes | None, ...]
    buckets: int
    columns: Mapping[str, str]

    TYPES: ClassVar[Mapping[str, str]] = {"shifts": "array<int>", "keys": "array<binary>", "partitions": "array<int>"}

    @classmethod
    def of(cls, routes: Mapping[bytes, Route]) -> RouteTable:
        names = list(routes)
        laid = displace(xxhash64([pa.array(names, pa.binary())]))
        keys = tuple(None if at < 0 else names[at] for at in laid.places)
        columns = {
            "shifts": laid.shifts,
            "keys": [None if key is None else to_text(key) for key in keys],
            "partitions": [None if key is None else routes[key].partition for key in keys],
        }
        return cls(keys, len(laid.shifts), {name: json.dumps(column) for name, column in columns.items()})
