from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from unskew.hashing.buffers import byte_ranges, fixed_width, validity


def test_values_are_a_view_on_the_buffer_from_the_offset_on() -> None:
    numbers = np.arange(100)
    view = fixed_width(pa.array(numbers).slice(40, 7), np.int64)
    assert view.tolist() == list(range(40, 47))
    assert np.shares_memory(view, numbers)
    assert not view.flags.writeable


def test_validity_is_a_view_on_the_bitmap() -> None:
    array = pa.array([None if row % 3 else row for row in range(50)]).slice(10, 20)
    bits = np.unpackbits(validity(array), bitorder="little")[array.offset : array.offset + len(array)]
    assert bits.tolist() == [row % 3 == 0 for row in range(10, 30)]
    assert np.shares_memory(validity(array), np.frombuffer(array.buffers()[0], np.uint8))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
def test_bytes_are_a_view_on_the_buffers(kind: pa.DataType) -> None:
    array = pa.array(["abc", "", "defg", None, "h"], kind).slice(1, 3)
    offsets, data = byte_ranges(array)
    assert [bytes(data[start:end]) for start, end in pairwise(offsets)] == [b"", b"defg", b""]
    _, offset_buffer, data_buffer = array.buffers()
    assert np.shares_memory(offsets, np.frombuffer(offset_buffer, np.uint8))
    assert np.shares_memory(data, np.frombuffer(data_buffer, np.uint8))


def test_fixed_size_bytes_are_a_view_on_the_buffer() -> None:
    array = pa.array([b"ab", b"cd", b"ef"], pa.binary(2)).slice(1)
    offsets, data = byte_ranges(array)
    assert offsets.tolist() == [0, 2, 4]
    assert bytes(data) == b"cdef"
    assert np.shares_memory(data, np.frombuffer(array.buffers()[1], np.uint8))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(3)], ids=str)
def test_no_rows_have_one_offset_and_no_data(kind: pa.DataType) -> None:
    offsets, data = byte_ranges(pa.array([], kind))
    assert offsets.tolist() == [0]
    assert data.size == 0
