"""The gateway's side of the protocol: routes, message sets and markers, decided for each batch. Pure, without Kafka."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import FormatError, RoutingError
from unskew.hashing import kafka_hashes, kafka_partitions
from unskew.kafka.messages import CLOSE, OPEN, Mark, set_id
from unskew.kafka.snapshot import from_text, to_text
from unskew.planners.memory import Memory
from unskew.routing.table import RoutingTable

GENERATIONS_SINCE_MS = 1_577_836_800_000  # 2020; a generation a second fits into 31 bits until 2088
# A batch takes its sequence numbers from blocks of 10 ** 9. A task's rows begin at 10 ** 8, so all have nine digits.
BLOCK_LENGTH = 1_000_000_000
FIRST_IN_BLOCK = 100_000_000
BLOCK_MS = 100  # a block for each tenth of a second: the clock runs ahead of the blocks, and 63 bits last until 2049


@dataclass(frozen=True)
class Route:
    """Where a key goes that does not go home."""

    partition: int
    set_id: int
    messages: int | None = 0  # of the set so far; None if we lost count


@dataclass(frozen=True)
class Marker:
    """A message without a value that opens or closes a message set."""

    key: bytes
    partition: int
    mark: Mark


@dataclass(frozen=True, eq=False)
class GatewayDecision:
    """How one batch is routed. It is kept before the batch is written, so that a batch written again is routed alike.

    A key's home is where Kafka's own partitioner sends it. Generation (starts of the gateway) and epoch (decisions to
    move keys) together number the message sets. Here key ``ada`` leaves home, where it has no set of its own; the set
    that ends there is named after the epoch before:

    >>> first = GatewayDecision.cold(4, now_ms=GENERATIONS_SINCE_MS + 1000)
    >>> first.partition_of(b"ada")
    1
    >>> second = first.following(batch_id=1).with_moves({b"ada": 3})
    >>> second.partition_of(b"ada"), second.routes[b"ada"] == Route(3, set_id(1, 1))
    (3, True)
    >>> for marker in second.markers:
    ...     print(marker.partition, "close" if marker.mark.flag == CLOSE else "open", marker.mark.partition)
    1 close 3
    3 open 1
    """

    batch_id: int
    partitions: int  # of the topic
    generation: int
    epoch: int = 0
    block: int = 0  # the batch's markers take their numbers from this block, its rows from the next
    routes: Mapping[bytes, Route] = field(default_factory=dict)  # keys that do not go home
    markers: tuple[Marker, ...] = ()  # to write before the rows of this batch
    lane: str = ""  # name of the gateway, where several write to a topic
    planned_at_ms: int = 0  # when keys were last planned
    memory: Memory = field(default_factory=Memory)  # the planner's
    parallelism: int = 0  # Spark's default, by which some sources cut rows: under another, their order may differ

    @classmethod
    def cold(cls, partitions: int, *, now_ms: int, batch_id: int = 0, lane: str = "") -> GatewayDecision:
        """Return the decision of a gateway that knows nothing: every key goes home.

        Generation and numbers follow the clock, which puts them ahead of a gateway whose checkpoint was lost. What
        that one left unfinished is unknown: consumers have to finish it first.
        """
        generation = max(1, (now_ms - GENERATIONS_SINCE_MS) // 1000)
        return cls(batch_id, partitions, generation, block=block_at(now_ms), lane=lane, planned_at_ms=now_ms)

    @property
    def first_row_sequence(self) -> int:
        """Sequence number of a task's first row; the i-th row after it has this number plus i."""
        return (self.block + 1) * BLOCK_LENGTH + FIRST_IN_BLOCK

    @property
    def table(self) -> RoutingTable:
        """The routes as a table: slot i is partition i, and a key's hash leads home by itself."""
        hashes = hashes_of(list(self.routes), self.partitions)
        owners = np.array([route.partition for route in self.routes.values()], np.int32)
        slots = np.arange(self.partitions, dtype=np.int32)
        return RoutingTable(self.partitions, slots, hashes, owners, version=self.epoch)

    def partition_of(self, key: bytes) -> int:
        """Return where this batch's messages of a key go."""
        route = self.routes.get(key)
        return home_of(key, self.partitions) if route is None else route.partition

    def counted(self, messages: Mapping[bytes, int] | None) -> GatewayDecision:
        """Return this decision with the batch's messages added to the sets of its routes; None if we lost count."""

        def total(key: bytes, known: int | None) -> int | None:
            return None if messages is None or known is None else known + messages.get(key, 0)

        routes = {key: Route(r.partition, r.set_id, total(key, r.messages)) for key, r in self.routes.items()}
        return replace(self, routes=routes)

    def following(self, batch_id: int, *, restarted_at_ms: int | None = None) -> GatewayDecision:
        """Return the decision for a later batch with nothing moved; in a new generation after a restart."""
        fresh = 0 if restarted_at_ms is None else block_at(restarted_at_ms)
        return replace(
            self,
            batch_id=batch_id,
            generation=self.generation + (restarted_at_ms is not None),
            block=max(self.block + 2, fresh),
            markers=(),
        )

    def renumbered(self, now_ms: int) -> GatewayDecision:
        """Return this decision with new numbers for its rows, so that consumers take them for new ones.

        For rows that come in another order than before, or of which some were refused while later ones got through.
        With their old numbers, consumers would take them for rows they have. Better twice than lost. Markers keep
        their numbers.
        """
        return replace(self.counted(None), block=max(self.block + 2, block_at(now_ms)))

    def with_moves(self, targets: Mapping[bytes, int]) -> GatewayDecision:
        """Return this decision in a new epoch, with keys moved and their sets marked; keys may stay."""
        if self.markers:
            raise RoutingError("this batch has moves already", got=self.batch_id, hint="one epoch a batch")
        new_id = set_id(self.generation, self.epoch + 1)
        routes, markers = dict(self.routes), list[Marker]()
        for key, target in targets.items():
            if not 0 <= target < self.partitions:
                raise RoutingError(f"partition {target} is not in 0..{self.partitions - 1}", got=key)
            source, route = self.partition_of(key), self.routes.get(key)
            if source == target:
                continue
            # A key at home has no entry. All of its sets so far have smaller numbers than this epoch's.
            old_id, messages = (new_id - 1, None) if route is None else (route.set_id, route.messages)
            number = self.block * BLOCK_LENGTH + len(markers)
            closing = Mark(CLOSE, old_id, number, self.lane, new_id, target, messages)
            opening = Mark(OPEN, new_id, number + 1, self.lane, old_id, source)
            markers += [Marker(key, source, closing), Marker(key, target, opening)]
            if target == home_of(key, self.partitions):
                del routes[key]
            else:
                routes[key] = Route(target, new_id)
        if not markers:
            return self
        return replace(self, epoch=self.epoch + 1, routes=routes, markers=tuple(markers))

    def to_bytes(self) -> bytes:
        entry = {
            **vars(self),
            "routes": [[to_text(key), r.partition, r.set_id, r.messages] for key, r in self.routes.items()],
            "markers": [
                [to_text(m.key), m.partition, {name: value.decode() for name, value in m.mark.headers()}]
                for m in self.markers
            ],
            "memory": to_text(self.memory.to_bytes()),
        }
        return json.dumps(entry).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> GatewayDecision:
        try:
            entry: dict[str, Any] = json.loads(data)
            entry["routes"] = {from_text(key): Route(*rest) for key, *rest in entry["routes"]}
            entry["markers"] = tuple(
                Marker(from_text(key), partition, Mark.of(tuple((n, v.encode()) for n, v in headers.items())))
                for key, partition, headers in entry["markers"]
            )
            entry["memory"] = Memory.from_bytes(from_text(entry["memory"]))
            return cls(**entry)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(f"these bytes are not a gateway's decision: {error}") from error


def block_at(now_ms: int) -> int:
    """Return a block that no gateway has reached by now, unless its batches took less than `BLOCK_MS` each."""
    return max(0, now_ms - GENERATIONS_SINCE_MS) // BLOCK_MS


def hashes_of(keys: list[bytes], partitions: int) -> NDArray[np.int64]:
    """Return the hashes by which a table and planners know keys."""
    return kafka_hashes(pa.array(keys, pa.binary()), partitions)


@lru_cache(maxsize=65_536)
def home_of(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's own partitioner gives a key."""
    return int(kafka_partitions(pa.array([key], pa.binary()), partitions)[0])
