"""What `Files` needs of a filesystem, and which one serves a root."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from unskew.state.arrow_place import S3_SCHEMES, ArrowPlace, is_local, located
from unskew.state.local_disk import LocalDisk
from unskew.state.s3 import S3


class Place(Protocol):
    """A folder on some filesystem. Names are relative to it. Failures are `OSError`; they may have written the file."""

    def create(self, name: str, data: bytes) -> bool: ...  # only if there is none; False if there is; durable
    def write(self, name: str, data: bytes) -> None: ...  # durable
    def replace(self, name: str, data: bytes) -> None: ...  # durable; readers see the old contents or the new ones
    def read(self, name: str) -> bytes: ...  # FileNotFoundError if there is none
    def read_range(self, name: str, offset: int, length: int) -> pa.Buffer: ...  # less if the file ends before
    def names(self, folder: str) -> list[str]: ...  # in any order; none if there is no such folder
    def exists(self, name: str) -> bool: ...
    def remove(self, name: str) -> None: ...  # if it is there
    def remove_folder(self, name: str) -> None: ...  # with all that is in it, if it is there


def reach(root: str) -> Place:
    """Return the place that a root names. Every process opens it once.

    >>> reach("file:/tmp/my checkpoint")
    LocalDisk(folder=PosixPath('/tmp/my checkpoint'))
    """
    return _reach(root, os.getpid())  # a client must not be shared with a process that was forked off


@lru_cache(maxsize=64)
def _reach(root: str, _process: int) -> Place:
    if is_local(root):
        return LocalDisk(Path(located(root)[1]))
    scheme, _, rest = root.partition("://")
    if scheme in S3_SCHEMES and find_spec("boto3") is not None:
        return S3(*rest.partition("/")[::2])
    return ArrowPlace(root)
