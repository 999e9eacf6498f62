"""What differs between the versions of Spark that unskew runs on, one function for each difference, and nothing else.

Functions have the form of the newest version. Each says what older versions lack, and what stands in for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from unskew.errors import SessionError

OLDEST, NEWEST = (4, 0), (4, 3)


def installed() -> str:
    """Return the version of PySpark. Reads its file, as what runs per key imports no Spark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SessionError("PySpark is not installed", hint='pip install "pyspark"')
    loader: Any = spec.loader  # of a folder, or of an archive
    text = loader.get_data(str(Path(spec.origin).with_name("version.py"))).decode()
    found = re.search(r"__version__.*[\"'](.+)[\"']", text)
    if found is None:
        raise SessionError("PySpark does not say its version", where=spec.origin)
    return found[1]


INSTALLED = installed()
SPARK = tuple(int(part) for part in INSTALLED.split(".")[:2])


def spoken(version: Sequence[int]) -> str:
    """Return a version as people write it, such as 4.2."""
    return ".".join(map(str, version))


def require_spark(version: tuple[int, int], what: str, hint: str | None = None) -> None:
    """Refuse what this version of Spark cannot do."""
    if version > SPARK:
        raise SessionError(f"{what} needs Spark {spoken(version)} or newer", got=INSTALLED, hint=hint)


# Shuffles by the number of a partition, and so homes for tasks: see `shuffle` and `unskew.spark.anchors`.
PARTITIONS_BY_ID = SPARK >= (4, 1)

# The class that writes checkpoints without a process for each file: in a package of its own since 4.1.
CHECKPOINT_FILES = ".".join(
    [
        "org.apache.spark.sql.execution.streaming",
        *(["checkpointing"] if SPARK >= (4, 1) else []),
        "FileSystemBasedCheckpointFileManager",
    ]
)
