"""A real stream that needs no download: the words of Python's own standard library."""

from __future__ import annotations

import re
import sysconfig
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.workloads.base import Seeded
from unskew.workloads.span import Span

WORD = re.compile(r"[A-Za-z_]\w*")
NOT_THE_LIBRARY = re.compile(
    r"(^|/)(site-packages|dist-packages|tests?|idle_test|config-[^/]*|_sysconfigdata[^/]*)(/|$)"
)


@dataclass(frozen=True, kw_only=True)
class Words(Seeded, name="words"):
    """Identifiers and words of the standard library's source, file by file, from the start again when all are read.

    About 1.3 million words, 50 thousand of them distinct; the same wherever the same version of Python runs. The
    library's own tests are left out, since not every installation has them. The first use takes a second.

    Examples
    --------
    >>> Words().rows(interval=0, n=4)["key"].to_pylist()
    ['Record', 'of', 'phased', 'in']
    """

    @property
    def domain(self) -> int:
        return len(_library()[1])

    @property
    def key_type(self) -> pa.DataType:
        return pa.string()

    def names(self, ids: NDArray[np.int64]) -> pa.Array:
        return _library()[1].take(pa.array(ids))

    def draw(self, span: Span) -> NDArray[np.int64]:
        ids = _library()[0]
        return ids[span.sequence() % ids.size]


@lru_cache(maxsize=1)
def _library() -> tuple[NDArray[np.int64], pa.Array]:
    """Return the id of every word in order of reading, and the distinct words in order of first appearance."""
    root = Path(sysconfig.get_path("stdlib"))
    files = sorted((file.relative_to(root).as_posix(), file) for file in root.rglob("*.py"))
    texts = (file.read_text("utf-8", "replace") for name, file in files if not NOT_THE_LIBRARY.search(name))
    words = pa.chunked_array([WORD.findall(text) for text in texts], pa.string())
    encoded = words.combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary
