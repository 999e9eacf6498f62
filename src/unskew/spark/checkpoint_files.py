"""Files of a checkpoint, on any filesystem that Spark can checkpoint to; for tools that work while no query runs."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


class CheckpointFiles:
    """Reads, writes, lists, copies and renames through Hadoop's filesystems, on the driver.

    Parameters
    ----------
    spark
        The session whose settings say how to reach the filesystem.
    root
        The checkpoint; a path without a scheme belongs to the session's default filesystem.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        inner: Any = spark._jsparkSession
        self._hadoop = jvm
        self._conf = inner.sessionState().newHadoopConf()
        path = jvm.org.apache.hadoop.fs.Path(root)
        self._filesystem = path.getFileSystem(self._conf)
        self.root = str(self._filesystem.makeQualified(path).toString()).rstrip("/")

    def exists(self, name: str = "") -> bool:
        """Tell whether a file or folder is there."""
        return bool(self._filesystem.exists(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, in order; none if there is no such folder."""
        if not self.exists(folder):
            return []
        return sorted(status.getPath().getName() for status in self._filesystem.listStatus(self._path(folder)))

    def read(self, name: str) -> str:
        """Return the text of a file."""
        stream = self._filesystem.open(self._path(name))
        try:
            return bytes(self._hadoop.org.apache.commons.io.IOUtils.toByteArray(stream)).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a file, over what is there."""
        stream = self._filesystem.create(self._path(name), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def copy(self, name: str, other: CheckpointFiles) -> None:
        """Copy a file or a folder to another checkpoint, if it is there."""
        if self.exists(name):
            copy = self._hadoop.org.apache.hadoop.fs.FileUtil.copy
            copy(self._filesystem, self._path(name), other._filesystem, other._path(name), False, True, self._conf)

    def rename(self, name: str, new_name: str) -> None:
        """Give a file another name."""
        self._filesystem.rename(self._path(name), self._path(new_name))

    def delete(self, name: str = "") -> None:
        """Delete a file or a folder."""
        self._filesystem.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        return self._hadoop.org.apache.hadoop.fs.Path(f"{self.root}/{name}" if name else self.root)
