"""Partial states of split keys: what each channel holds, and the total of all channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from unskew.operators.base import Mergeable
from unskew.state.groups import Groups, group_rows
from unskew.state.keyed_state import KeyedState

TOUCHED = "touched"


def partial_states(state: KeyedState, groups: Groups, hashes: ArrayLike) -> pa.Table:
    """Return the state that a channel holds of split keys, after a batch.

    `groups` are the keys that had rows on this channel, `hashes` those of the split keys. The last column, ``touched``,
    says whether the key had rows here.
    """
    held = state.select(hashes)
    stored, _ = state.group_stored(held)
    seen = groups.subset(np.isin(groups.hashes, hashes))
    both = pa.concat_tables([seen.keys, stored.keys])
    alike = group_rows(both, np.concatenate([seen.hashes, stored.hashes]), both.column_names).group_of_row
    touched = np.isin(alike[len(seen) :], alike[: len(seen)])
    return held.append_column(TOUCHED, pa.array(touched))


def merge_partials(operator: Mergeable, partials: Sequence[pa.Table]) -> pa.Table:
    """Merge the parts of split keys from all channels, and return the output rows of keys that had rows on any of them.

    Sums of floats depend on the order of the parts, so always pass the channels in the same order.
    """
    rows = pa.concat_tables(partials)
    stored = rows.drop_columns([TOUCHED])
    groups, values = KeyedState.group_stored_rows(stored, operator.key_schema, operator.value_schema)
    merged = operator.finish(groups.keys, operator.merge(values, groups))
    touched = np.zeros(len(groups), np.bool_)
    touched[groups.group_of_row[rows.column(TOUCHED).to_numpy()]] = True
    return merged.filter(pa.array(touched))
