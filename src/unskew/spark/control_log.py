"""The control log: decisions and moved state, kept beside Spark's own logs in the checkpoint."""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from unskew.errors import CheckpointError
from unskew.spark.decision import Decision

FORMAT = "unskew-log-2"
ENTRIES_KEPT = 5
BATCHES_BETWEEN_CLEANINGS = 10


class ControlLog:
    """Files under ``<checkpoint>/unskew``, written by the driver alone through Spark's checkpoint file manager.

    That works on every filesystem Spark can checkpoint to, and the first write of a name wins. Every file carries its
    length and a checksum; a damaged one stops the query.

    The decision for batch n is written while batch n-1 ends. If batch n-1 has to run again, its decision is made again
    and written under the next attempt number; the highest attempt rules. Once batch n has started, batch n-1 is
    committed and nobody writes a decision for n any more.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._new_path = jvm.org.apache.hadoop.fs.Path
        self.checkpoint = checkpoint.rstrip("/")
        self.root = f"{self.checkpoint}/unskew"
        session: Any = spark._jsparkSession
        self._configuration = session.sessionState().newHadoopConf()
        managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
        self._files = managers.create(self._new_path(self.root), self._configuration)
        for folder in ("decisions", "moved"):
            self._files.mkdirs(self._path(folder))
        self._io = jvm.org.apache.commons.io.IOUtils

    def write_decision(self, decision: Decision) -> None:
        """Write the decision for a batch that has not started."""
        self.write_ruling(decision.batch_id, decision.to_json().encode())  # again if the batch before ended twice

    def read_decision(self, batch_id: int) -> Decision | None:
        """Return the decision that rules for a batch, or None if there is none yet."""
        data = self.read_ruling(batch_id)
        return None if data is None else Decision.from_json(data.decode())

    def write_ruling(self, batch_id: int, data: bytes) -> None:
        """Write what rules for a batch from now on, under the next attempt number."""
        if not self.write(f"decisions/{batch_id}.0", data):
            self.write(f"decisions/{batch_id}.{max(self._attempts(batch_id)) + 1}", data)

    def read_ruling(self, batch_id: int) -> bytes | None:
        """Return what rules for a batch, None if nothing does yet."""
        attempts = self._attempts(batch_id)
        return self.read(f"decisions/{batch_id}.{max(attempts)}") if attempts else None

    def write_moved(self, batch_id: int, channel: int, state: bytes) -> str:
        """Keep state that waits for its channel; return the file's full path."""
        name = f"moved/{batch_id}.{channel}.{uuid.uuid4().hex}"
        self.write(name, state)
        return f"{self.root}/{name}"

    def forget_before(self, batch_id: int, *decisions: Decision) -> None:
        """Remove decisions and moved state of batches that nothing refers to any more; looks every few batches.

        State that one of `decisions` has to install stays, however long its channel was not called.
        """
        if batch_id % BATCHES_BETWEEN_CLEANINGS:
            return
        waiting = {file for decision in decisions for files in decision.install.values() for file in files}
        for folder in ("decisions", "moved"):
            for name in self._list(folder):
                if int(name.split(".")[0]) < batch_id - ENTRIES_KEPT and f"{self.root}/{folder}/{name}" not in waiting:
                    self._files.delete(self._path(f"{folder}/{name}"))

    def identify(self, identity: Mapping[str, Any]) -> str:
        """Return the name of this checkpoint's query; refuse a query that is another one.

        At the first start the identity is written down, with a name that no other query has. A start that ran no batch
        does not count.
        """
        if self.last_batches()[0] < 0:
            self._files.delete(self._path("query"))
        entry = {**identity, "name": uuid.uuid4().hex}
        if self.write("query", json.dumps(entry, sort_keys=True).encode()):
            return str(entry["name"])
        known = json.loads(self.read("query"))
        for part, value in identity.items():
            if known.get(part) != value:
                raise CheckpointError(
                    f"this checkpoint was written with {part} = {known.get(part)!r}",
                    where=self.checkpoint,
                    got=value,
                    hint=f"unskew resize {self.checkpoint} --max-channels {value} --to NEW"
                    if part == "max_channels"
                    else f"use the same {part}, or start with a new checkpointLocation",
                )
        return str(known["name"])

    def known(self, part: str) -> Any:
        """Return a part of the identity of the query that ran here, None if none did."""
        return json.loads(self.read("query"))[part] if self.last_batches()[0] >= 0 else None

    def last_batches(self) -> tuple[int, int]:
        """Return the last batch that Spark planned and the last that it committed, -1 where there is none."""
        return self._latest("offsets"), self._latest("commits")

    def write(self, name: str, data: bytes) -> bool:
        """Write a file once; return False if it was there already."""
        path = self._path(name)
        if self._files.exists(path):
            return False
        stream = self._files.createAtomic(path, False)
        try:
            header = f"{FORMAT} {len(data)} {zlib.crc32(data)}\n".encode()
            stream.write(bytearray(header + data))
            stream.close()
        except Exception:
            stream.cancel()
            if self._files.exists(path):
                return False
            raise
        return True

    def read(self, name: str) -> bytes:
        """Return what was written under a name; raises `CheckpointError` if it is missing or damaged."""
        path = self._path(name)
        if not self._files.exists(path):
            raise CheckpointError(
                "an entry of the control log is missing",
                where=f"{self.root}/{name}",
                hint="restore the checkpoint from a copy, or start with a new checkpointLocation",
            )
        stream = self._files.open(path)
        try:
            return check_entry(bytes(self._io.toByteArray(stream)), f"{self.root}/{name}")
        finally:
            stream.close()

    def _attempts(self, batch_id: int) -> list[int]:
        return [int(name.split(".")[1]) for name in self._list("decisions") if name.split(".")[0] == str(batch_id)]

    def _latest(self, folder: str) -> int:
        path = self._new_path(f"{self.checkpoint}/{folder}")
        if not self._files.exists(path):
            return -1
        names = [status.getPath().getName() for status in self._files.list(path)]
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def _list(self, folder: str) -> list[str]:
        names = [status.getPath().getName() for status in self._files.list(self._path(folder))]
        return [name for name in names if name[0].isdigit()]

    def _path(self, name: str) -> Any:
        return self._new_path(f"{self.root}/{name}")


def check_entry(data: bytes, where: str) -> bytes:
    """Return an entry's contents after checking its header, length and checksum."""
    header, _, body = data.partition(b"\n")
    if header.split() != [FORMAT.encode(), str(len(body)).encode(), str(zlib.crc32(body)).encode()]:
        raise CheckpointError(
            "an entry of the control log is damaged",
            where=where,
            hint="restore the checkpoint from a copy, or start with a new checkpointLocation",
        )
    return body
