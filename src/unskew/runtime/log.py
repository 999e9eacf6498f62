"""The records of a query: who may write them, which exist, and what nobody needs any more."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from unskew.codec import dump, load
from unskew.errors import CheckpointError, FencedError
from unskew.runtime.record import FORMAT, Output, Record
from unskew.state.files import Files

FIGURES_KEPT = 1000
BATCHES_PINNED = 10_000


@dataclass(frozen=True)
class RecordLog:
    """The folder ``unskew`` of a checkpoint.

    - ``epochs/k``: the k-th start of the query
    - ``prepared/n``: the record of batch n, created once
    - ``commit/n``: the mark that the sink of batch n is done
    - ``state/n/...``, ``output/n/...``: files that batch n has introduced; only those that a record names exist
    - ``figures/n``: batch n in figures, for people
    - ``requests/...``: what users ask of a running query
    - ``pins/...``: records that somebody is reading

    Parameters
    ----------
    files
        The folder.
    """

    files: Files

    def claim(self) -> int:
        """Return the number of a new start; every start before it is fenced off from now on."""
        epoch = max(self._numbers("epochs"), default=0) + 1
        while not self.files.create(f"epochs/{epoch}", uuid.uuid4().hex.encode()):
            epoch += 1
        return epoch

    def check_epoch(self, epoch: int) -> None:
        """Raise `FencedError` if a later start has taken over."""
        if self.files.exists(f"epochs/{epoch + 1}"):
            raise FencedError(
                "another start of this query has taken over its checkpoint",
                where=self.files.root,
                hint="let one driver at a time run a query; this one stops and has done no harm",
            )

    def last(self) -> tuple[int, int]:
        """Return the last batch that has a record, and the last that is committed; -1 where there is none.

        Listings may show new files late; what comes after the last one listed is asked for by name.
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
            raise CheckpointError("this record has another format", where=where, got=record.format)
        return record

    def is_committed(self, batch_id: int) -> bool:
        """Tell whether the sink of a batch is done."""
        return self.files.exists(f"commit/{batch_id}")

    def prepare(self, record: Record) -> None:
        """Write the record of a batch, unless somebody else has."""
        self.check_epoch(record.epoch)
        if not self.files.create(f"prepared/{record.batch_id}", dump(record)):
            raise FencedError(
                f"another start of this query has recorded batch {record.batch_id}",
                where=self.files.root,
                hint="let one driver at a time run a query; this one stops and has done no harm",
            )

    def commit(self, record: Record, epoch: int) -> None:
        """Mark the sink of a batch as done; whoever else did has given it the same rows."""
        self.check_epoch(epoch)
        self.files.create(f"commit/{record.batch_id}", record.fingerprint.encode())

    def forget(self, committed: int, retained: int) -> None:
        """Remove records that are no longer retained, then what no record names; clocks play no part.

        Only batch n introduces files of batch n, so of batches up to the last commit everything that no record names
        is garbage; newer files are never touched.
        """
        for batch_id in sorted({*self._numbers("prepared"), *self._numbers("commit")}):
            if batch_id <= committed - retained:
                self.files.remove(f"prepared/{batch_id}")
                self.files.remove(f"commit/{batch_id}")
        named = self._named(committed, retained)
        if named is None:
            return
        for folder in ("state", "output"):
            for batch_id in self._numbers(folder):
                if batch_id > committed:
                    continue
                place = f"{folder}/{batch_id}"
                if not any(name.startswith(f"{place}/") for name in named):
                    self.files.remove_folder(place)
                    continue
                for name in self.files.names(place):
                    if f"{place}/{name}" not in named:
                        self.files.remove(f"{place}/{name}")
        for batch_id in self._numbers("figures"):
            if batch_id <= committed - FIGURES_KEPT:
                self.files.remove(f"figures/{batch_id}")

    def _named(self, committed: int, retained: int) -> set[str] | None:
        """Return the files that records and pins name; None if somebody removes records meanwhile.

        What later records will name of old batches, the newest one names already: if that was read, nothing is missed.
        Listings may show new files late, so the records that are retained are asked for by name.
        """
        expected = range(max(0, committed - retained + 1), committed + 1)
        records = [self.read(batch_id) for batch_id in sorted({*self._numbers("prepared"), *expected})]
        if not records or records[-1] is None:
            return None
        return {name for each in [*records, *self._pinned(committed)] if each is not None for name in _names(each)}

    def _pinned(self, committed: int) -> list[Record]:
        """Return the records that readers have pinned; pins that a killed reader left behind go after a long while."""
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
        """Keep what a record names until `unpin`; raises `CheckpointError` if it is too late."""
        name = uuid.uuid4().hex
        self.files.write(f"pins/{name}", dump(replace(record, output=Output())))
        if not self.files.exists(f"prepared/{record.batch_id}"):
            self.unpin(name)
            raise CheckpointError(
                f"the record of batch {record.batch_id} has just been removed", where=self.files.root, hint="try again"
            )
        return name

    def unpin(self, name: str) -> None:
        """Let go of what `pin` kept."""
        self.files.remove(f"pins/{name}")

    def write_deadline(self, batch_id: int, deadline_ms: int | None) -> None:
        """Tell the tick when a batch without rows is due, by the clock."""
        self.files.replace("tick", json.dumps({"batch_id": batch_id, "deadline_ms": deadline_ms}).encode())

    def write_figures(self, batch_id: int, figures: dict[str, Any]) -> None:
        """Tell readers about a batch."""
        self.files.replace(f"figures/{batch_id}", json.dumps(figures).encode())

    def figures_after(self, batch_id: int) -> list[int]:
        """Return the batches after one that there are figures of."""
        return [number for number in self._numbers("figures") if number > batch_id]

    def read_figures(self, batch_id: int) -> dict[str, Any] | None:
        """Return a batch in figures, None if they are gone."""
        data = self.files.read_or_none(f"figures/{batch_id}")
        found: dict[str, Any] | None = json.loads(data) if data else None
        return found

    def ask(self, **wish: Any) -> None:
        """Ask something of the running query; the next batch takes note."""
        number = max(self._numbers("requests"), default=0) + 1
        while not self.files.create(f"requests/{number}", json.dumps(wish).encode()):
            number += 1

    def requests(self) -> tuple[list[int], dict[str, Any]]:
        """Return the numbers of all requests, and what they ask for together; later ones overrule earlier ones."""
        numbers, wish = self._numbers("requests"), dict[str, Any]()
        for number in numbers:
            data = self.files.read_or_none(f"requests/{number}")
            wish |= json.loads(data) if data else {}
        return numbers, wish

    def granted(self, numbers: Iterable[int]) -> None:
        """Remove requests that a record has taken up."""
        for number in numbers:
            self.files.remove(f"requests/{number}")

    def _numbers(self, folder: str) -> list[int]:
        return sorted(int(name) for name in self.files.names(folder) if name.isdigit())


def _names(record: Record) -> set[str]:
    """Return the files that a record names."""
    state = {name for channel in record.channels.values() for name in channel.files}
    return state | {piece.file for piece in record.output.pieces}
