"""The k greatest of all keys, from the rows that a running count or sum yields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from unskew.errors import ArgumentError, require_number
from unskew.operators.base import require_column


@dataclass(frozen=True)
class TopK:
    """A ranking that follows a stream of totals: the second half of a top-k word count.

    The first half is ``balance(words, "word").aggregate(n="count")``, where each batch yields the new totals of its
    words. Of these the ranking needs only the k greatest: totals never fall, so a word that was not among them before
    and has not changed is not among them now.

    Parameters
    ----------
    k
        How many keys to keep.
    by
        The column of the totals, which must never fall for any key.
    key
        The key's column or columns. Equal totals rank by it.
    rows
        The ranking so far.

    References
    ----------
    Nasir et al., Partial Key Grouping, section 4.1.

    Examples
    --------
    >>> top = TopK(2, by="n", key=["word"])
    >>> top = top.after(pa.table({"word": ["ink", "jam", "tea"], "n": [3, 1, 2]}))
    >>> top.after(pa.table({"word": ["jam"], "n": [9]})).rows.to_pylist()
    [{'word': 'jam', 'n': 9}, {'word': 'ink', 'n': 3}]
    """

    k: int
    by: str
    key: Sequence[str]
    rows: pa.Table | None = None

    def __post_init__(self) -> None:
        require_number("k", self.k)
        if self.k < 1:
            raise ArgumentError("a ranking has at least one place", got=self.k)

    def after(self, changed: pa.Table) -> TopK:
        """Return the ranking after a batch: `changed` holds the new totals of keys, each at most once.

        A batch that comes again changes nothing.
        """
        for name in (self.by, *self.key):
            require_column(changed.schema, name)
        rows = changed if self.rows is None else pa.concat_tables([changed, self.rows.cast(changed.schema)])
        order = [(self.by, "descending"), *((name, "ascending") for name in self.key)]
        places = 0 if self.rows is None else self.rows.num_rows
        best = pc.select_k_unstable(rows, min(rows.num_rows, self.k + places), order)
        firsts = [(name, "first") for name in rows.column_names if name not in self.key]
        best = rows.take(best).group_by(list(self.key), use_threads=False).aggregate(firsts)
        best = best.rename_columns([name.removesuffix("_first") for name in best.column_names])
        return replace(self, rows=best.select(rows.column_names).slice(0, self.k))
