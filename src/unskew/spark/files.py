"""Files as Python reads them, on executors too: there is no checkpoint file manager of Spark's."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import pyarrow.fs

from unskew.errors import CheckpointError
from unskew.spark.control_log import check_entry

S3_SCHEMES = ("s3", "s3a", "s3n")
S3_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
S3_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


def read_entry(uri: str) -> bytes:
    """Return the contents of an entry of the control log."""
    filesystem, path = located(uri)
    with filesystem.open_input_stream(path) as stream:
        return check_entry(stream.read(), uri)


def located(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """Return the filesystem of a place, any that Arrow knows (local, S3, Azure, GCS, HDFS), and the path on it.

    Arrow takes credentials from where the tools of each cloud take them, the environment among others. Local places
    are written as Hadoop writes them, with a space as a space.

    >>> located("file:/tmp/my checkpoint")[1], located("file:///tmp/100%")[1], located("/tmp/a")[1]
    ('/tmp/my checkpoint', '/tmp/100%', '/tmp/a')
    """
    scheme, _, rest = uri.partition("://")
    try:
        if uri.startswith("file:"):
            return pyarrow.fs.LocalFileSystem(), rest or uri.removeprefix("file:")
        if not rest:
            return pyarrow.fs.LocalFileSystem(), uri
        if scheme not in S3_SCHEMES:
            return pyarrow.fs.FileSystem.from_uri(uri)  # type: ignore[no-any-return]
        endpoint = next((os.environ[name] for name in S3_ENDPOINTS if os.environ.get(name)), None)
        if endpoint is not None:
            where = urlsplit(endpoint)
            return pyarrow.fs.S3FileSystem(endpoint_override=where.netloc, scheme=where.scheme), rest
        if any(os.environ.get(name) for name in S3_REGIONS):
            return pyarrow.fs.S3FileSystem(), rest
        return pyarrow.fs.FileSystem.from_uri(f"s3://{rest}")  # type: ignore[no-any-return]
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise CheckpointError(
            f"this place cannot be reached from Python: {error}",
            where=uri,
            hint="see docs/how-to/clusters.md for what executors need to reach a checkpoint",
        ) from None
