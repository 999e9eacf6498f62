import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from unskew.errors import FormatError
from unskew.routing import RoutingTable, load_table, save_table
from unskew.routing.storage import table_from_bytes, table_to_bytes


@pytest.fixture
def table() -> RoutingTable:
    rng = np.random.default_rng(0)
    hashes = rng.integers(-(2**63), 2**63 - 1, 1000)
    return RoutingTable.initial(16).with_explicit(hashes, rng.integers(0, 16, 1000)).with_split({5: (1, 2, 3)})


def test_a_saved_table_is_read_back(table: RoutingTable, tmp_path: Path) -> None:
    save_table(table, tmp_path / "table.arrow")
    assert load_table(tmp_path / "table.arrow") == table
    plain = RoutingTable.initial(1, slots=1)
    assert table_from_bytes(table_to_bytes(plain)) == plain


def test_it_is_an_arrow_file_that_anything_can_read(table: RoutingTable) -> None:
    read = pa.ipc.open_file(pa.BufferReader(table_to_bytes(table))).read_all()
    assert read.column("slots")[0].as_py() == table.slots.tolist()


def test_every_flipped_byte_of_the_values_is_noticed(table: RoutingTable) -> None:
    data = table_to_bytes(table)
    at = data.index(table.slots.tobytes())
    for offset in (0, 1, 777, 4096 * 4 - 1):
        damaged = bytearray(data)
        damaged[at + offset] ^= 1
        with pytest.raises(FormatError, match="damaged"):
            table_from_bytes(bytes(damaged), "here")


@pytest.mark.parametrize("cut", [0, 10, 500, -1, -200])
def test_a_file_cut_short_is_refused(table: RoutingTable, tmp_path: Path, cut: int) -> None:
    path = tmp_path / "short.arrow"
    path.write_bytes(table_to_bytes(table)[:cut])
    with pytest.raises(FormatError, match=r"short\.arrow"):
        load_table(path)


def test_another_arrow_file_is_refused(tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    other = pa.table({"a": [1]})
    with pa.ipc.new_file(sink, other.schema) as writer:
        writer.write_table(other)
    with pytest.raises(FormatError, match="not a routing table"):
        table_from_bytes(bytes(sink.getvalue()))


def test_a_newer_format_says_upgrade(table: RoutingTable) -> None:
    read = pa.ipc.open_file(pa.BufferReader(table_to_bytes(table))).read_all()
    header = json.loads(read.schema.metadata[b"unskew.routing_table"]) | {"format_version": 2}
    newer = read.replace_schema_metadata({b"unskew.routing_table": json.dumps(header)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, newer.schema) as writer:
        writer.write_table(newer)
    with pytest.raises(FormatError, match=r"format version 2, this unskew reads up to 1.*upgrade unskew"):
        table_from_bytes(bytes(sink.getvalue()))
