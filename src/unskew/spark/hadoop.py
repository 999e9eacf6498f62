"""Checkpoints in places that only Hadoop's settings reach, such as HDFS.

The driver reads and writes through Hadoop's `FileSystem`, which Python tasks cannot. What they write travels to the
driver with their results. What they read they mostly have as a local copy of state. If not, Spark reads the files and
sends them along (`contents`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from unskew.errors import CheckpointError
from unskew.runtime.wire import PIECES
from unskew.spark.internals import is_connect, java_and_hadoop
from unskew.state.arrow_place import S3_SCHEMES, is_local
from unskew.state.carried import CarriedFiles
from unskew.state.files import Files, Piece
from unskew.state.local_disk import SCRATCH
from unskew.versions.arrow import from_arrow_schema
from unskew.versions.shuffle import repartition_by_id

WRITES_AT_ONCE = 8
BYTES_OVER_PY4J = 1 << 16  # more goes through a temporary file: Py4J sends bytes as text, 5 MB a second
APPEARS_WHOLE = ("gs://",)  # files appear when they are closed, and a rename is a copy; elsewhere it is the reverse
KINDS: dict[str, type[Exception]] = {
    "FileNotFoundException": FileNotFoundError,
    "FileAlreadyExistsException": FileExistsError,
    "EOFException": EOFError,
}


def checkpoint_files(spark: SparkSession, root: str) -> Files:
    """Return the files of a checkpoint, through Hadoop where Python cannot create a file exclusively.

    S3 is always reached from Python, as Hadoop's S3 client cannot create a file exclusively. Places other than a local
    disk cost a probe: two creates and a remove, and one listing if they fail.
    """
    direct = Files(root)
    if is_local(root) or root.partition("://")[0] in S3_SCHEMES:
        return direct
    try:
        direct.child("unskew").probe()
        return direct
    except CheckpointError as error:
        if is_connect(spark):
            error.add_note("Spark Connect hides Hadoop's settings, so Python must reach the checkpoint by itself.")
            raise
        reason = error
    files = HadoopFiles(root, HadoopPlace(root, *java_and_hadoop(spark)))
    try:
        files.names()
    except CheckpointError as error:
        error.add_note(f"Python does not get there either: {reason}")
        raise
    return files


@dataclass(frozen=True, eq=False)
class HadoopFiles(Files):
    """Files that the driver reaches through Hadoop. In a task they become `CarriedFiles`."""

    place: HadoopPlace
    manifests: dict[Piece, bytes] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return CarriedFiles, (self.root,)

    @property
    def _place(self) -> HadoopPlace:
        return self.place

    def child(self, name: str) -> HadoopFiles:
        root = self._full(name)
        return HadoopFiles(root, replace(self.place, root=root))

    def enclosed(self, pieces: Iterable[Piece]) -> dict[Piece, bytes]:
        """Return manifests, and remember them until the next batch."""
        wanted = list(pieces)
        read = _pool().map(lambda piece: self.manifests.get(piece) or bytes(self.read_piece(piece)), wanted)
        found = dict(zip(wanted, read, strict=True))
        self.manifests.clear()
        self.manifests.update(found)
        return found

    def deliver(self, written: Iterable[tuple[str, pa.Buffer]], manifests: Iterable[Piece]) -> None:
        """Write what tasks have sent, several files at once, and remember the manifests among them."""
        files = dict(written)
        list(_pool().map(self.write, files.keys(), files.values()))
        self.manifests.update({p: bytes(files[p.file].slice(p.offset, p.length)) for p in manifests if p.file in files})


@dataclass(frozen=True, eq=False)
class HadoopPlace:
    """A folder on one of Hadoop's filesystems; see `unskew.state.place.Place`. Driver only.

    Contents are forced to disk where the filesystem can do so. A create renames a scratch file to its name, which HDFS
    refuses if the name is taken. Hadoop's local filesystem looks first and renames then: good enough for tests, not for
    two drivers at once.
    """

    root: str
    java: Any
    settings: Any

    def create(self, name: str, data: bytes) -> bool:
        try:
            self._publish(name, data, overwrite=False)
        except FileExistsError:
            return False
        return True

    def write(self, name: str, data: bytes) -> None:
        self._put(name, data, overwrite=True)

    def replace(self, name: str, data: bytes) -> None:
        self._publish(name, data, overwrite=True)

    def read(self, name: str) -> bytes:
        with self._opened(name) as stream:
            return bytes(stream.readAllBytes())

    def read_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        """Return a part of a file, empty if the file ends before it."""
        try:
            with self._opened(name) as stream:
                stream.seek(offset)
                return pa.py_buffer(bytes(stream.readNBytes(length)))
        except EOFError:
            return pa.py_buffer(b"")

    def names(self, folder: str) -> list[str]:
        """List a folder in one call over Py4J, without hidden files."""
        try:
            with _as_os_errors():
                found = self._filesystem.listStatus(self._at(folder))
                paths = self.java.org.apache.hadoop.fs.FileUtil.stat2Paths(found)
                text = self.java.org.apache.commons.lang3.ArrayUtils.toString(paths)  # {hdfs://a/b,hdfs://a/c}
        except FileNotFoundError:
            return []
        names = (path.rpartition("/")[2] for path in text[1:-1].split(f",{self.root.partition(':')[0]}:"))
        return [name for name in names if name and not name.startswith(".")]

    def exists(self, name: str) -> bool:
        with _as_os_errors():
            return bool(self._filesystem.isFile(self._at(name)))

    def remove(self, name: str) -> None:
        with _as_os_errors():
            self._filesystem.delete(self._at(name), False)

    def remove_folder(self, name: str) -> None:
        with _as_os_errors():
            self._filesystem.delete(self._at(name), True)

    def _put(self, name: str, data: bytes | pa.Buffer, *, overwrite: bool) -> None:
        """Write a file. If that fails half-way, do not close it, so that it does not appear where closing shows it."""
        with _as_os_errors():
            stream = self._filesystem.create(self._at(name), overwrite)
            if memoryview(data).nbytes <= BYTES_OVER_PY4J:
                stream.write(bytes(data))
            else:
                with tempfile.NamedTemporaryFile(prefix="unskew-") as file:
                    file.write(data)
                    file.flush()
                    self.java.java.nio.file.Files.copy(self.java.java.io.File(file.name).toPath(), stream)
            if stream.hasCapability("hsync"):
                stream.hsync()
            stream.close()

    def _publish(self, name: str, data: bytes, *, overwrite: bool) -> None:
        """Write a file that appears with all its contents at once."""
        if self.root.startswith(APPEARS_WHOLE):
            return self._put(name, data, overwrite=overwrite)
        folder, slash, last = name.rpartition("/")
        scratch = f"{folder}{slash}{SCRATCH}{uuid4().hex}-{last}"
        self._put(scratch, data, overwrite=True)
        hadoop = self.java.org.apache.hadoop.fs
        try:
            with _as_os_errors():
                option = hadoop.Options.Rename.OVERWRITE if overwrite else hadoop.Options.Rename.NONE
                context = hadoop.FileContext.getFileContext(self._at(name).toUri(), self.settings)
                options = self.java.java.lang.reflect.Array.newInstance(option.getDeclaringClass(), 1)
                options[0] = option
                context.rename(self._at(scratch), self._at(name), options)
        except BaseException:
            with suppress(OSError):
                self.remove(scratch)
            raise

    @contextmanager
    def _opened(self, name: str) -> Iterator[Any]:
        with _as_os_errors():
            stream = self._filesystem.open(self._at(name))
            try:
                yield stream
            finally:
                stream.close()

    @property
    def _filesystem(self) -> Any:
        return self._at("").getFileSystem(self.settings)  # Hadoop keeps it

    def _at(self, name: str) -> Any:
        return self.java.org.apache.hadoop.fs.Path(f"{self.root}/{name}" if name else self.root)


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Turn Java's errors into those of the operating system, but leave an interrupt to Spark."""
    try:
        yield
    except Py4JJavaError as error:
        kind = error.java_exception.getClass().getSimpleName()
        said = f"{kind}: {str(error.java_exception.getMessage()).partition(chr(10))[0]}"
        if "Interrupt" in kind:
            raise
        raise KINDS.get(kind, OSError)(said) from None


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WRITES_AT_ONCE, "unskew-hadoop")  # kept for good: each thread has one in Java beside it


def contents(spark: SparkSession, files: Files, wanted: Mapping[int, Iterable[Piece]]) -> DataFrame:
    """Return pieces that Spark reads for tasks (`wire.PIECES`), with a partition for each channel.

    Where tasks read for themselves, there is one row per channel, without a piece.
    """
    if isinstance(files, HadoopFiles):
        pieces = [(channel, p.file, p.offset, p.length) for channel, each in wanted.items() for p in each]
        listed = spark.createDataFrame(pieces, "channel int, name string, offset bigint, length bigint")
        read = spark.read.format("binaryFile").load(sorted({f"{files.root}/{name}" for _, name, _, _ in pieces}))
        named = read.select(sql.substring_index("path", "/", -3).alias("name"), "content")
        part = sql.expr("substring(content, int(offset + 1), int(length)) AS contents")
        rows = named.join(sql.broadcast(listed), "name").select("channel", "name", "offset", part)
    else:
        rows = spark.createDataFrame([(channel, None, None, None) for channel in wanted], from_arrow_schema(PIECES))
    return repartition_by_id(rows, max(wanted) + 1, "channel")


def taken_in(files: Files, batches: Iterator[pa.RecordBatch]) -> list[int]:
    """Take in what `contents` gives to a task, and return its channels."""
    channels: set[int] = set()
    for batch in batches:
        channels.update(batch.column("channel").to_pylist())
        places = zip(batch.column("name").to_pylist(), batch.column("offset").to_pylist(), strict=True)
        for (name, offset), data in zip(places, batch.column("contents"), strict=True):
            if name is not None:
                files.take_in(name, offset, data.as_buffer())
    return sorted(channels)
