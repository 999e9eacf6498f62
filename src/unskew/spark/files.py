"""Files of the control log as tasks read them: on executors there is no checkpoint file manager."""

from __future__ import annotations

import pyarrow.fs

from unskew.spark.control_log import check_entry


def read_entry(uri: str) -> bytes:
    """Return an entry's contents, from any filesystem that Arrow knows (local, S3, HDFS, GCS)."""
    filesystem, path = pyarrow.fs.FileSystem.from_uri(uri)
    with filesystem.open_input_stream(path) as stream:
        return check_entry(stream.read(), uri)
