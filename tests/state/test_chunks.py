"""The columns of a state."""

from __future__ import annotations

import pyarrow as pa

from unskew.state.chunks import Columns


def test_columns_have_prefixes_in_rows_and_a_text() -> None:
    columns = Columns.of(pa.schema({"user": pa.string()}), pa.schema({"n": pa.int64()}))
    assert columns.rows.names == ["hash", "key.user", "value.n"]
    assert columns.text == "key user: string; value n: int64"
