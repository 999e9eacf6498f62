"""Files on any filesystem that Arrow or fsspec knows. Only some of fsspec's can create a file exclusively."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs

from unskew.errors import CheckpointError

S3_SCHEMES = ("s3", "s3a", "s3n")
NO_EXCLUSIVE_CREATE = (
    "use a disk that driver and executors share, S3 with boto3 installed, or a filesystem whose fsspec package "
    'refuses to open an existing file in mode "xb", such as recent gcsfs and adlfs'
)


@dataclass(frozen=True)
class ArrowPlace:
    """A folder that Arrow reaches, or else fsspec. A create goes through fsspec: Arrow's streams and moves overwrite.

    Files are as durable as the filesystem makes them when they are closed.
    """

    root: str

    def create(self, name: str, data: bytes) -> bool:
        """Open a file in mode "xb", which a filesystem that knows this mode refuses if there is one."""
        if self._fsspec is None:
            what = "Python cannot create a file here only if there is none"
            raise CheckpointError(what, where=self.root, hint=NO_EXCLUSIVE_CREATE)
        filesystem, root = self._fsspec
        path = f"{root.rstrip('/')}/{name}"
        folder = path.rpartition("/")[0]
        try:
            _put(data, lambda: filesystem.open(path, "xb"), lambda: filesystem.makedirs(folder, exist_ok=True))
        except FileExistsError:
            return False
        except (NotImplementedError, ValueError) as error:
            what = f"fsspec cannot create a file here only if there is none: {error}"
            raise CheckpointError(what, where=self.root, hint=NO_EXCLUSIVE_CREATE) from error
        return True

    def write(self, name: str, data: bytes) -> None:
        with self._asking(name) as (filesystem, path):
            folder = path.rpartition("/")[0]
            _put(data, lambda: filesystem.open_output_stream(path), lambda: filesystem.create_dir(folder))

    def replace(self, name: str, data: bytes) -> None:
        """Write another file and move it over this one."""
        folder, slash, last = name.rpartition("/")
        scratch = f"{folder}{slash}.tmp-{uuid4().hex}-{last}"
        self.write(scratch, data)
        with self._asking(name) as (filesystem, path), self._asking(scratch) as (_, source):
            filesystem.move(source, path)

    def read(self, name: str) -> bytes:
        with self._asking(name) as (filesystem, path), filesystem.open_input_stream(path) as stream:
            return bytes(stream.read())

    def read_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        with self._asking(name) as (filesystem, path), filesystem.open_input_file(path) as file:
            if offset >= file.size():
                return pa.py_buffer(b"")
            file.seek(offset)
            return file.read_buffer(length)

    def names(self, folder: str) -> list[str]:
        with self._asking(folder) as (filesystem, path):
            selector = pyarrow.fs.FileSelector(path, allow_not_found=True)
            return [each.base_name for each in filesystem.get_file_info(selector)]

    def exists(self, name: str) -> bool:
        with self._asking(name) as (filesystem, path):
            return bool(filesystem.get_file_info(path).is_file)

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError), self._asking(name) as (filesystem, path):
            filesystem.delete_file(path)

    def remove_folder(self, name: str) -> None:
        with suppress(FileNotFoundError), self._asking(name) as (filesystem, path):
            filesystem.delete_dir(path)

    @contextmanager
    def _asking(self, name: str) -> Iterator[tuple[pyarrow.fs.FileSystem, str]]:
        filesystem, root = self._arrow
        try:
            yield filesystem, "/".join(part for part in (root.rstrip("/"), name) if part)
        except pa.ArrowException as error:
            raise OSError(str(error)) from error

    @cached_property
    def _arrow(self) -> tuple[pyarrow.fs.FileSystem, str]:
        try:
            return located(self.root)
        except CheckpointError:
            if self._fsspec is None:
                raise
        filesystem, root = self._fsspec
        return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(filesystem)), root

    @cached_property
    def _fsspec(self) -> tuple[Any, str] | None:
        """The filesystem and the path of the root on it; None if fsspec or its part for this scheme is missing."""
        if find_spec("fsspec") is None:
            return None
        with suppress(ImportError, ValueError):
            filesystem, root = import_module("fsspec.core").url_to_fs(self.root)
            return filesystem, root
        return None


def _put(data: bytes, opened: Callable[[], Any], make_folder: Callable[[], object]) -> None:
    """Make the folder only if it is missing: object stores have none, and would keep an empty object for it."""
    try:
        with opened() as file:
            file.write(data)
    except FileNotFoundError:
        make_folder()
        with opened() as file:
            file.write(data)


def located(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """Return the filesystem of a place, any that Arrow knows (local, S3, Azure, GCS, HDFS), and the path on it.

    Arrow finds credentials where each cloud's own tools do, for example in the environment. Places are written as
    Hadoop writes them, with a space as a space and a percent sign as a percent sign.

    >>> located("file:/tmp/my checkpoint")[1], located("file:///tmp/100%")[1], located("/tmp/a")[1]
    ('/tmp/my checkpoint', '/tmp/100%', '/tmp/a')
    """
    scheme, _, rest = uri.partition("://")
    if is_local(uri):
        return pyarrow.fs.LocalFileSystem(), rest or uri.removeprefix("file:")
    try:
        if scheme in S3_SCHEMES:
            scheme = "s3"
            if endpoint := s3_endpoint():
                where = urlsplit(endpoint)
                return pyarrow.fs.S3FileSystem(endpoint_override=where.netloc, scheme=where.scheme), rest
            if s3_region():
                return pyarrow.fs.S3FileSystem(), rest
        authority, slash, path = rest.partition("/")
        return pyarrow.fs.FileSystem.from_uri(f"{scheme}://{authority}{slash}{quote(path)}")  # type: ignore[no-any-return]
    except (pa.ArrowInvalid, OSError) as error:
        raise CheckpointError(
            f"this place cannot be reached from Python: {error}",
            where=uri,
            hint='the guide "Run on a cluster" says what executors need to reach a checkpoint',
        ) from None


def is_local(uri: str) -> bool:
    """Tell whether a place is on a disk that the system itself mounts.

    >>> is_local("/ck"), is_local("file:/ck"), is_local("s3a://bucket/ck")
    (True, True, False)
    """
    return uri.startswith("file:") or "://" not in uri


def s3_endpoint() -> str | None:
    """Return the address of the S3 server that the environment names, None for Amazon's own."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def s3_region() -> str | None:
    """Return the region that the environment names."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or None
