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
S3_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
S3_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
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
        """Open a file in mode "xb", which a filesystem refuses if there is one, where it knows this mode."""
        if self._fsspec is None:
            raise self._no_exclusive_create("Python cannot create a file here only if there is none")
        filesystem, root = self._fsspec
        path = f"{root.rstrip('/')}/{name}"

        def put() -> None:
            with filesystem.open(path, "xb") as file:
                file.write(data)

        try:
            _with_folder(put, lambda: filesystem.makedirs(path.rpartition("/")[0], exist_ok=True))
        except FileExistsError:
            return False
        except (NotImplementedError, ValueError) as error:
            raise self._no_exclusive_create(
                f"fsspec cannot create a file here only if there is none: {error}"
            ) from error
        return True

    def write(self, name: str, data: bytes) -> None:
        with self._asking(name) as (filesystem, path):

            def put() -> None:
                with filesystem.open_output_stream(path) as stream:
                    stream.write(data)

            _with_folder(put, lambda: filesystem.create_dir(path.rpartition("/")[0], recursive=True))

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
        """The filesystem and the path of the root on it, None if fsspec or its part for this scheme is missing."""
        if find_spec("fsspec") is None:
            return None
        try:
            filesystem, root = import_module("fsspec.core").url_to_fs(self.root)
        except (ImportError, ValueError):
            return None
        return filesystem, root

    def _no_exclusive_create(self, what: str) -> CheckpointError:
        return CheckpointError(what, where=self.root, hint=NO_EXCLUSIVE_CREATE)


def _with_folder(put: Callable[[], None], make_folder: Callable[[], None]) -> None:
    """Make the folder only where it is missed: object stores have none, and would keep an empty object for it."""
    try:
        put()
    except FileNotFoundError:
        make_folder()
        put()


def located(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """Return the filesystem of a place, any that Arrow knows (local, S3, Azure, GCS, HDFS), and the path on it.

    Arrow takes credentials from where the tools of each cloud take them, the environment among others. Places are
    written as Hadoop writes them, with a space as a space and a percent sign as a percent sign.

    >>> located("file:/tmp/my checkpoint")[1], located("file:///tmp/100%")[1], located("/tmp/a")[1]
    ('/tmp/my checkpoint', '/tmp/100%', '/tmp/a')
    """
    scheme, _, rest = uri.partition("://")
    try:
        if uri.startswith("file:"):
            return pyarrow.fs.LocalFileSystem(), rest or uri.removeprefix("file:")
        if not rest:
            return pyarrow.fs.LocalFileSystem(), uri
        authority, slash, path = rest.partition("/")
        if scheme not in S3_SCHEMES:
            return pyarrow.fs.FileSystem.from_uri(f"{scheme}://{authority}{slash}{quote(path)}")  # type: ignore[no-any-return]
        endpoint = s3_endpoint()
        if endpoint is not None:
            where = urlsplit(endpoint)
            return pyarrow.fs.S3FileSystem(endpoint_override=where.netloc, scheme=where.scheme), rest
        if s3_region() is not None:
            return pyarrow.fs.S3FileSystem(), rest
        return pyarrow.fs.FileSystem.from_uri(f"s3://{authority}{slash}{quote(path)}")  # type: ignore[no-any-return]
    except (pa.ArrowInvalid, OSError) as error:
        raise CheckpointError(
            f"this place cannot be reached from Python: {error}",
            where=uri,
            hint="see docs/how-to/clusters.md for what executors need to reach a checkpoint",
        ) from None


def is_local(uri: str) -> bool:
    """Tell whether a place is on a disk that the system itself mounts.

    >>> is_local("/ck"), is_local("file:/ck"), is_local("s3a://bucket/ck")
    (True, True, False)
    """
    return uri.startswith("file:") or "://" not in uri


def s3_endpoint() -> str | None:
    """Return the address of the S3 server that the environment names, None for Amazon's own."""
    return next((os.environ[name] for name in S3_ENDPOINTS if os.environ.get(name)), None)


def s3_region() -> str | None:
    """Return the region that the environment names."""
    return next((os.environ[name] for name in S3_REGIONS if os.environ.get(name)), None)
