"""The records of a query: who may write them, which exist, and what can be removed."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from unskew.codec import dump, load
from unskew.errors import CheckpointError, FencedError
from unskew.runtime.record import FORMAT, Output, Record
from unskew.state.files import Files

BATCHES_PINNED = 10_000


@dataclass(frozen=True)
class RecordLog:
    """The folder ``unskew`` of a checkpoint.

    - ``epochs/k``: the k-th start of the query
    - ``prepared/n``: the record of batch n, created once
    - ``commit/n``: the mark that the sink of batch n is done
    - ``state/n/...``, ``output/n/...``: files that batch n has introduced; only those that a record names count
    - ``history/...``: all batches in figures, for people; see `unskew.runtime.history`
    - ``requests/...``: what users ask of a running query
    - ``pins/...``: records that somebody is reading
    """

    files: Files

    def claim(self) -> int:
        """Return the number of a new start; every earlier start is fenced off from now on."""
        epoch = max(self._numbers("epochs"), default=0) + 1
        while not self.files.create(f"epochs/{epoch}", uuid.uuid4().hex.encode()):
            epoch += 1
        return epoch

    def check_epoch(self, epoch: int) -> None:
        """Raise `FencedError` if a later start has taken over."""
        if self.files.exists(f"epochs/{epoch + 1}"):
            raise self._fenced("taken over its checkpoint")

    def last(self) -> tuple[int, int]:
        """Return the last batch that has a record, and the last that is committed; -1 where there is none.

        Listings may show new files late, so commits after the last one listed are looked for by name.
        """
        prepared, committed = (max(self._numbers(folder), default=-1) for folder in ("prepared", "commit"))
        while self.is_committed(committed + 1):
            committed += 1
        return max(prepared, committed), committed

    def read(self, batch_id: int) -> Record | None:
        """Return the record of a batch, None if there is none."""
        data = self.files.read_or_none(f"prepared/{batch_id}")
        if data is None:
            return None
        where = f"{self.files.root}/prepared/{batch_id}"
        record = load(Record, data, where=where)
        if record.format != FORMAT:
            raise CheckpointError(
                "this record has another format",
                where=where,
                got=record.format,
                hint="another version of unskew wrote it: use that version, or a new checkpointLocation",
            )
        return record

    def is_committed(self, batch_id: int) -> bool:
        return self.files.exists(f"commit/{batch_id}")

    def prepare(self, record: Record) -> None:
        """Write the record of a batch; raise `FencedError` if another start already has."""
        self.check_epoch(record.epoch)
        if not self.files.create(f"prepared/{record.batch_id}", dump(record)):
            raise self._fenced(f"recorded batch {record.batch_id}")

    def commit(self, record: Record, epoch: int) -> None:
        """Mark the sink of a batch as done; if another start already has, its sink got the same rows."""
        self.check_epoch(epoch)
        self.files.create(f"commit/{record.batch_id}", record.fingerprint.encode())

    def forget(self, committed: int, retained: int) -> None:
        """Remove records that are no longer retained, then files that no record names; no clock is needed.

        Only batch n introduces files of batch n. So up to the last committed batch, every file that no record names is
        garbage. Newer files are never touched.
        """
        last = committed - retained
        for batch_id in sorted({*self._numbers("prepared", last), *self._numbers("commit", last)}):
            self.files.remove(f"prepared/{batch_id}")
            self.files.remove(f"commit/{batch_id}")
        named = self._named(committed, retained)
        if named is None:
            return
        places = [f"{folder}/{number}" for folder in ("state", "output") for number in self._numbers(folder, committed)]
        for place in places:
            if not any(name.startswith(f"{place}/") for name in named):
                self.files.remove_folder(place)
                continue
            for name in self.files.names(place):
                if f"{place}/{name}" not in named:
                    self.files.remove(f"{place}/{name}")

    def _named(self, committed: int, retained: int) -> set[str] | None:
        """Return the files that records and pins name; None if another driver is removing records.

        Files of old batches that later records will name are named by the newest record already, so it must be read.
        Listings may show new files late, so retained records are read by name.
        """
        expected = range(max(0, committed - retained + 1), committed + 1)
        records = [self.read(batch_id) for batch_id in sorted({*self._numbers("prepared"), *expected})]
        if not records or records[-1] is None:
            return None
        return {name for each in [*records, *self._pinned(committed)] if each is not None for name in _names(each)}

    def _pinned(self, committed: int) -> list[Record]:
        """Return the records that readers have pinned; remove old pins, which killed readers left behind."""
        pinned = []
        for name in self.files.names("pins"):
            data = self.files.read_or_none(f"pins/{name}")
            record = load(Record, data) if data is not None else None
            if record is not None and record.batch_id > committed - BATCHES_PINNED:
                pinned.append(record)
            else:
                self.unpin(name)
        return pinned

    def pin(self, record: Record) -> str:
        """Keep what a record names until `unpin`; raise `CheckpointError` if it is too late."""
        name = uuid.uuid4().hex
        self.files.write(f"pins/{name}", dump(replace(record, output=Output())))
        if not self.files.exists(f"prepared/{record.batch_id}"):
            self.unpin(name)
            raise CheckpointError(
                f"the record of batch {record.batch_id} has just been removed", where=self.files.root, hint="try again"
            )
        return name

    def unpin(self, name: str) -> None:
        """Release what `pin` kept."""
        self.files.remove(f"pins/{name}")

    def write_deadline(self, batch_id: int, deadline_ms: int | None) -> None:
        """Tell the tick when a batch without rows is due, by the clock."""
        self.files.replace("tick", json.dumps({"batch_id": batch_id, "deadline_ms": deadline_ms}).encode())

    def ask(self, **wish: Any) -> None:
        """Ask something of the running query; the next batch takes note."""
        number = max(self._numbers("requests"), default=0) + 1
        while not self.files.create(f"requests/{number}", json.dumps(wish).encode()):
            number += 1

    def requests(self) -> tuple[list[int], dict[str, Any]]:
        """Return the numbers of all requests, and what they ask for together; later ones win."""
        numbers, wish = self._numbers("requests"), dict[str, Any]()
        for number in numbers:
            data = self.files.read_or_none(f"requests/{number}")
            wish |= json.loads(data) if data else {}
        return numbers, wish

    def granted(self, numbers: Iterable[int]) -> None:
        """Remove requests that a record has taken into account."""
        for number in numbers:
            self.files.remove(f"requests/{number}")

    def _fenced(self, what: str) -> FencedError:
        hint = "let one driver at a time run a query; this one stops and has done no harm"
        return FencedError(f"another start of this query has {what}", where=self.files.root, hint=hint)

    def _numbers(self, folder: str, last: float = math.inf) -> list[int]:
        return sorted(int(name) for name in self.files.names(folder) if name.isdigit() and int(name) <= last)


def _names(record: Record) -> set[str]:
    """Return the files that a record names."""
    state = {name for channel in record.channels.values() for name in channel.files}
    return state | {piece.file for piece in record.output.pieces}
