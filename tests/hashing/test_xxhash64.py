from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError, ColumnError, KeyTypeError
from unskew.hashing import hash_keys, xxhash64

WORD = 2**64 - 1
PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def slow_xxh64(message: bytes, seed: int = 42) -> int:
    """Follow the specification of XXH64 step by step; returns the unsigned hash."""
    p1, p2, p3, p4, p5 = PRIMES

    def rotate(word: int, bits: int) -> int:
        return (word << bits | word >> (64 - bits)) & WORD

    def lane_round(lane: int, word: int) -> int:
        return rotate((lane + word * p2) & WORD, 31) * p1 & WORD

    seed &= WORD
    stripes, rest = divmod(len(message), 32)
    if stripes:
        lanes = [(seed + p1 + p2) & WORD, (seed + p2) & WORD, seed, (seed - p1) & WORD]
        for word_number, (word,) in enumerate(struct.iter_unpack("<Q", message[: 32 * stripes])):
            lanes[word_number % 4] = lane_round(lanes[word_number % 4], word)
        hashed = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & WORD
        for lane in lanes:
            hashed = ((hashed ^ lane_round(0, lane)) * p1 + p4) & WORD
    else:
        hashed = (seed + p5) & WORD
    hashed = (hashed + len(message)) & WORD
    tail = message[len(message) - rest :]
    while len(tail) >= 8:
        hashed = (rotate(hashed ^ lane_round(0, int.from_bytes(tail[:8], "little")), 27) * p1 + p4) & WORD
        tail = tail[8:]
    if len(tail) >= 4:
        hashed = (rotate(hashed ^ int.from_bytes(tail[:4], "little") * p1 & WORD, 23) * p2 + p3) & WORD
        tail = tail[4:]
    for byte in tail:
        hashed = rotate(hashed ^ byte * p5 & WORD, 11) * p1 & WORD
    hashed = (hashed ^ hashed >> 33) * p2 & WORD
    hashed = (hashed ^ hashed >> 29) * p3 & WORD
    return hashed ^ hashed >> 32


def unsigned(hashes: np.ndarray[Any, np.dtype[np.int64]]) -> list[int]:
    return hashes.view(np.uint64).tolist()


# the published vectors of other implementations, all with seed 0
@pytest.mark.parametrize(
    ("message", "hashed"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"as", 0x1C330FB2D66BE179),
        (b"asd", 0x631C37CE72A97393),
        (b"asdf", 0x415872F599CEA71E),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Call me Ishmael. Some years ago--never mind how long precisely-", 0x02A2E85470D6FD96),
    ],
)
def test_published_vectors(message: bytes, hashed: int) -> None:
    assert slow_xxh64(message, seed=0) == hashed
    assert unsigned(xxhash64([pa.array([message])], seed=0)) == [hashed]


def test_the_example_of_sparks_documentation() -> None:
    columns = [pa.array(["Spark"]), pa.array([[123]], pa.list_(pa.int32())), pa.array([2], pa.int32())]
    assert xxhash64(columns).tolist() == [5602566077635097486]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=150), max_size=5), st.integers(-(2**63), 2**64 - 1))
def test_bytes_against_the_slow_reference(messages: list[bytes], seed: int) -> None:
    expected = [slow_xxh64(message, seed) for message in messages]
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        assert unsigned(xxhash64([pa.array(messages, kind)], seed=seed)) == expected


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)), max_size=5))
def test_composite_integers_against_the_slow_reference(rows: list[tuple[int, int]]) -> None:
    longs, ints = pa.array([row[0] for row in rows], pa.int64()), pa.array([row[1] for row in rows], pa.int32())
    expected = [slow_xxh64(struct.pack("<i", small), slow_xxh64(struct.pack("<q", large))) for large, small in rows]
    assert unsigned(xxhash64([longs, ints])) == expected


VALUES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int16(): [-1, 0, 7],
    pa.int64(): [-(2**63), 5, 2**63 - 1],
    pa.float64(): [1.5, float("nan"), -0.0],
    pa.string(): ["", "a", "a longer string with more than thirty-two bytes in it", "ß"],
    pa.large_string(): ["", "a", "bb"],
    pa.string_view(): ["short", "a longer string that is not inlined in the view"],
    pa.binary(3): [b"abc", b"\0\0\0"],
    pa.binary(0): [b""],
    pa.decimal128(30, 2): [0, -1, 10**20],
    pa.timestamp("ns"): [-1, 0, 10**15],
    pa.list_(pa.int64()): [[], [1], [1, None, 2]],
    pa.list_(pa.int8(), 2): [[1, 2], [None, 3]],
    pa.large_list(pa.string()): [["a"], [], ["b", "c", None]],
    pa.struct([("x", pa.int8()), ("y", pa.string())]): [{"x": 1, "y": None}, {"x": None, "y": "b"}],
    pa.list_(pa.struct([("x", pa.list_(pa.int8()))])): [[{"x": [1]}, None], [], [{"x": None}]],
    pa.dictionary(pa.int8(), pa.string()): ["a", "b", "c"],
}


def row_by_row(values: list[Any], kind: pa.DataType, seed: int) -> list[int]:
    return [int(xxhash64([pa.array([value], kind)], seed=seed)[0]) for value in values]


@pytest.mark.parametrize("kind", VALUES, ids=str)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_slices_chunks_and_nulls_hash_as_single_rows(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.sampled_from([None, *VALUES[kind]]), max_size=20))
    cut, start = data.draw(st.integers(0, len(values))), data.draw(st.integers(0, len(values)))
    expected = row_by_row(values, kind, seed=3)
    whole = pa.array(values, kind)
    assert xxhash64([whole], seed=3).tolist() == expected
    assert xxhash64([whole.slice(start)], seed=3).tolist() == expected[start:]
    chunks = pa.chunked_array([whole.slice(0, cut), whole.slice(cut)], kind)
    assert xxhash64([chunks], seed=3).tolist() == expected
    assert xxhash64([chunks.slice(start)], seed=3).tolist() == expected[start:]


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_nothing_hashes_to_nothing(kind: pa.DataType) -> None:
    assert xxhash64([pa.array([], kind)]).tolist() == []
    assert xxhash64([pa.chunked_array([], kind)]).tolist() == []


@settings(deadline=None)
@given(st.data())
def test_a_dictionary_hashes_as_its_values(data: st.DataObject) -> None:
    dictionary = data.draw(st.lists(st.sampled_from(["a", "b", None, "", "a longer one"]), max_size=6))
    codes = data.draw(
        st.lists(st.none() | st.integers(0, len(dictionary) - 1) if dictionary else st.none(), max_size=12)
    )
    encoded = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int16()), pa.array(dictionary, pa.string()))
    decoded = pa.array([None if code is None else dictionary[code] for code in codes], pa.string())
    numbers = pa.array(range(len(codes)), pa.int64())
    for before in ([], [numbers], [pa.nulls(len(codes))]):
        np.testing.assert_array_equal(xxhash64([*before, encoded]), xxhash64([*before, decoded]))


@pytest.mark.parametrize("kind", [pa.decimal32(9, 2), pa.decimal64(18, 2), pa.decimal256(38, 2)], ids=str)
def test_decimals_of_other_widths_hash_by_value(kind: pa.DataType) -> None:
    same = pa.decimal128(kind.precision, kind.scale)
    values = [0, 1, -1, None, 12345]
    np.testing.assert_array_equal(xxhash64([pa.array(values, kind)]), xxhash64([pa.array(values, same)]))


def test_a_null_leaves_the_running_hash() -> None:
    number, null = pa.array([7]), pa.array([None], pa.string())
    assert xxhash64([null, null]).tolist() == [42]
    assert xxhash64([null, number, null]).tolist() == xxhash64([number]).tolist()


def test_garbage_under_nulls_does_not_count() -> None:
    bits = pa.py_buffer(bytes([0b01]))
    offsets = pa.py_buffer(np.array([0, 1, 3], np.int32))
    strings = pa.Array.from_buffers(pa.string(), 2, [bits, offsets, pa.py_buffer(b"abc")])
    codes = pa.Array.from_buffers(pa.int8(), 2, [bits, pa.py_buffer(bytes([0, 99]))])
    coded = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b"]), safe=False)
    assert xxhash64([strings]).tolist() == xxhash64([coded]).tolist() == [xxhash64([pa.array(["a"])])[0], 42]


@pytest.mark.parametrize(
    "kind",
    [
        pa.uint64(),
        pa.float16(),
        pa.date64(),
        pa.time32("s"),
        pa.decimal256(50, 0),
        pa.map_(pa.string(), pa.int64()),
        pa.list_(pa.map_(pa.string(), pa.int64())),
        pa.struct([("ok", pa.int64()), ("inner", pa.uint8())]),
        pa.dictionary(pa.int8(), pa.uint32()),
        pa.month_day_nano_interval(),
        pa.list_view(pa.int64()),
        pa.struct([pa.field("value", pa.binary()), pa.field("metadata", pa.binary(), metadata={"variant": "true"})]),
    ],
    ids=str,
)
def test_other_types_are_refused_by_name_even_when_empty(kind: pa.DataType) -> None:
    with pytest.raises(KeyTypeError, match=r"column 'tags'.*Hint: "):
        hash_keys(pa.table({"tags": pa.chunked_array([], kind)}), "tags")


def test_a_nested_culprit_is_named() -> None:
    rows = pa.table({"k": pa.array([], pa.struct([("inner", pa.list_(pa.uint8()))]))})
    with pytest.raises(KeyTypeError, match="got 'uint8' \\(in column 'k', field 'inner', element\\)"):
        hash_keys(rows, "k")


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.duration("ms"), pa.timestamp("s", "UTC")], ids=str)
def test_a_time_out_of_sparks_range_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(ColumnError, match=r"out of Spark's range.*column 'when'"):
        hash_keys(pa.table({"when": pa.array([2**62], kind)}), "when")


def test_hash_keys_takes_tables_and_batches_one_name_or_several() -> None:
    rows = pa.table({"a": [1, 2, None], "b": ["x", None, "z"]})
    batch = rows.to_batches()[0]
    assert hash_keys(rows, "a").tolist() == hash_keys(batch, ["a"]).tolist() == xxhash64([rows["a"]]).tolist()
    assert hash_keys(batch, ("b", "a")).tolist() == xxhash64([rows["b"], rows["a"]]).tolist()


@pytest.mark.parametrize(
    ("key", "message"),
    [("usr", "got 'usr'.*did you mean 'user'"), ("zzz", "one of user, empty, twice"), ("twice", "2 columns")],
)
def test_a_column_that_is_not_there_or_not_unique(key: str, message: str) -> None:
    rows = pa.Table.from_arrays(
        [pa.array([1]), pa.nulls(1), pa.array([1]), pa.array([1])], ["user", "empty", "twice", "twice"]
    )
    with pytest.raises(ColumnError, match=message):
        hash_keys(rows, key)


def test_a_key_of_nothing_but_nulls_without_a_type_is_refused() -> None:
    with pytest.raises(ColumnError, match=r"holds only nulls.*column 'k'"):
        hash_keys(pa.table({"k": [None, None]}), "k")


def test_no_columns_and_unequal_columns_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no column to hash"):
        hash_keys(pa.table({"k": [1]}), [])
    with pytest.raises(ArgumentError, match="differ in length"):
        xxhash64([pa.array([1]), pa.array([1, 2])], names=["a", "a"])
