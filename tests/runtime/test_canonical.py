"""Rows that come in any order and in any batches leave in one order, whatever their types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unskew
from unskew.runtime.canonical import canonical_indices
from unskew.testing import write_batches

VARIANT = pa.struct(
    [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False, metadata={"variant": "true"})]
)
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "one": (pa.int64(), st.integers(0, 1)),
    "other": (pa.int64(), st.integers(0, 1)),
    "real": (pa.float64(), st.sampled_from([0.0, -0.0, float("nan")])),
    "short": (pa.float32(), st.sampled_from([0.0, -0.0])),
    "map": (
        pa.map_(pa.string(), pa.list_(pa.int32())),
        st.lists(
            st.tuples(st.sampled_from("ab"), st.none() | st.lists(st.none() | st.just(1), max_size=2)), max_size=2
        ),
    ),
    "pair": (
        pa.struct({"a": pa.string(), "b": pa.string()}),
        st.fixed_dictionaries({name: st.none() | st.just("x") for name in "ab"}),
    ),
    "lists": (pa.list_(pa.list_(pa.int64())), st.lists(st.lists(st.just(1), max_size=2), max_size=2)),
    "variant": (VARIANT, st.fixed_dictionaries({"value": st.binary(max_size=1), "metadata": st.just(b"")})),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])


@pytest.mark.parametrize("name", COLUMNS)
@given(data=st.data())
@settings(max_examples=25)
def test_order_depends_on_the_contents_alone(name: str, data: st.DataObject) -> None:
    names = [name] if name not in ("one", "other") else ["one", "other"]
    row = st.fixed_dictionaries({each: st.none() | COLUMNS[each][1] for each in names})
    rows = data.draw(st.lists(row, min_size=1, max_size=12))
    table = pa.Table.from_pylist(rows, pa.schema([SCHEMA.field(each) for each in names]))
    order = data.draw(st.permutations(range(len(rows))))
    cut = data.draw(st.integers(0, len(rows)))
    shuffled = table.take(pa.array(order)).combine_chunks()
    shuffled = pa.concat_tables([shuffled.slice(0, cut), shuffled.slice(cut)])
    ordered = [each.take(pa.array(canonical_indices(each))) for each in (table, shuffled)]
    texts = [list(map(repr, each.to_pylist())) for each in ordered]
    assert texts[0] == texts[1]
    assert sorted(texts[0]) == sorted(map(repr, table.to_pylist()))


@pytest.mark.spark
def test_behind_a_shuffle_columns_need_not_be_of_types_that_keys_have(spark: Any, tmp_path: Path) -> None:
    write_batches(tmp_path / "data", [pa.table({"user": ["ada", "bob", "ada"]}), pa.table({"user": ["bob"]})])
    events = spark.readStream.schema("user string").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "data"))
    shuffled = events.selectExpr("user", "map('name', user) as tags", "parse_json('{}') as rest").repartition(2)
    stage = unskew.balance(shuffled, "user", channels=2).aggregate(n="count", tagged="count(tags)")
    writer = stage.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).format("parquet")
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    folders = [tmp_path / "out" / f"batch_id={batch}" for batch in range(2)]
    got = [{row["user"]: row["n"] for row in pq.read_table(f, partitioning=None).to_pylist()} for f in folders]
    assert got == [{"ada": 2, "bob": 1}, {"bob": 2}]
