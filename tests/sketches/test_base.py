"""What all sketches must do alike."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from unskew.errors import FormatError, KeyTypeError, StatisticsError
from unskew.sketches import LossyCounting, SlidingLossyCounting, SpaceSaving

SKETCHES = {
    "lossy_counting": lambda: LossyCounting(error=0.03),
    "sliding_lossy_counting": lambda: SlidingLossyCounting(window=100, error=0.1),
    "space_saving": lambda: SpaceSaving(capacity=20),
}
STREAM = np.random.default_rng(0).zipf(1.3, 777)


@pytest.fixture(params=SKETCHES)
def kind(request):
    return request.param


@pytest.fixture
def sketch(kind):
    return SKETCHES[kind]()


def same(left, right):
    return left.to_arrow().equals(right.to_arrow(), check_metadata=True)


def through_a_file(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_file(sink.getvalue()).read_all()


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(pa.array, id="arrow"),
        pytest.param(lambda stream: pa.concat_arrays([pa.array([1, 2]), pa.array(stream)]).slice(2), id="slice"),
        pytest.param(lambda stream: pa.chunked_array([stream[:5], stream[5:5], stream[5:]]), id="chunks"),
        pytest.param(lambda stream: np.stack([stream, stream], axis=1)[:, 0], id="strided"),
        pytest.param(lambda stream: np.frombuffer(stream.tobytes(), np.int64), id="read-only"),
    ],
)
def test_a_column_may_come_in_several_forms(kind, sketch, form):
    expected = SKETCHES[kind]()
    expected.update(STREAM)
    expected.update_counts(STREAM, STREAM % 7)
    sketch.update(form(STREAM))
    sketch.update_counts(form(STREAM), form(STREAM % 7))
    assert same(sketch, expected)


def test_an_empty_column_changes_nothing(kind, sketch):
    for empty in (np.array([], np.int64), pa.array([], pa.int64()), pa.chunked_array([], pa.int64())):
        sketch.update(empty)
        sketch.update_counts(empty, empty)
        assert sketch.estimate(empty).tolist() == []
    assert same(sketch, SKETCHES[kind]())
    assert (sketch.n, len(sketch), sketch.entries().num_rows, sketch.query(0.5).num_rows) == (0, 0, 0, 0)


def test_a_row_counted_once_is_a_tuple(kind, sketch):
    expected = SKETCHES[kind]()
    expected.update(STREAM)
    for key in STREAM.tolist():
        sketch.update_counts(np.array([key, 5]), np.array([1, 0]))
    assert same(sketch, expected)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (pa.array(["a"]), "must be int64.*got 'string'.*Hint: sketches count 64-bit hashes"),
        (np.array([1.0]), "must be int64.*got 'float64'"),
        (np.array([1], np.uint64), "must be int64.*got 'uint64'"),
        ([1, 2], "must be int64.*got 'list'"),
        (pa.array([1, None]), "has 1 nulls"),
        (np.array([[1]]), "one dimension"),
    ],
)
def test_a_column_that_is_not_hashes_is_refused(sketch, wrong, message):
    for call in (sketch.update, sketch.estimate, lambda column: sketch.update_counts(column, np.array([1]))):
        with pytest.raises(KeyTypeError, match=message):
            call(wrong)
    assert sketch.n == 0


@pytest.mark.parametrize(
    ("hashes", "counts", "message"),
    [
        ([1, 2], [1], "2 hashes but 1 counts"),
        ([1, 2], [1, -3], r"negative, got -3 \(in row 1\)"),
        ([1, 2, 3], [2**61, 2**61, 1], r"more than 2\*\*62 tuples"),
        ([1] * 8, [2**61] * 8, r"more than 2\*\*62 tuples"),
    ],
)
def test_counts_that_do_not_fit_are_refused(sketch, hashes, counts, message):
    with pytest.raises(StatisticsError, match=message):
        sketch.update_counts(np.array(hashes), np.array(counts))
    assert (sketch.n, len(sketch)) == (0, 0)


@pytest.mark.parametrize("tuples", [0, 1, 99, 100, 150, 777])
def test_arrow_and_back_goes_on_as_if_nothing_had_happened(sketch, tuples):
    sketch.update(STREAM[:tuples])
    packed = sketch.to_arrow()
    again = type(sketch).from_arrow(through_a_file(packed))
    assert same(again, sketch)
    for one in (sketch, again):
        one.update(STREAM[tuples:])
        one.update_counts(STREAM[:30], STREAM[:30])
        one.update(STREAM)
    assert same(again, sketch)
    assert again.n == sketch.n
    assert again.entries().equals(sketch.entries())


def damaged(packed, *, header=None, column=None, values=None):
    """Change the header or one column of a packed sketch."""
    parameters = json.loads(packed.schema.metadata[b"unskew.sketch"])
    if header:
        parameters.update(header)
    if column:
        index = packed.schema.get_field_index(column)
        packed = packed.remove_column(index)
        if values is not None:
            packed = packed.append_column(column, values)
    return packed.replace_schema_metadata({"unskew.sketch": json.dumps(parameters)})


DAMAGES = {
    "newer format": ({"format": 2}, None, None, "newer format than 1, got 2.*Hint: upgrade"),
    "no format": ({"format": "one"}, None, None, "format is not a whole number"),
    "other kind": ({"kind": "bloom"}, None, None, "not a sketch of the kind .*got 'bloom'"),
    "negative n": ({"n": -1}, None, None, "n is not a whole number"),
    "fewer tuples than counted": ({"n": 3}, None, None, "add up to more than n|too high|do not cover"),
    "no counts": (None, "count", None, "column count is missing"),
    "counts as text": (None, "count", "text", "column count is not int64"),
    "null count": (None, "count", "null", "column count has nulls"),
    "zero count": (None, "count", "zero", "count is less than 1"),
    "same hash": (None, "hash", "zero", "hash appears twice"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_is_refused(sketch, damage):
    header, column, change, message = DAMAGES[damage]
    sketch.update(STREAM)
    packed = sketch.to_arrow()
    zeros = [0] * packed.num_rows
    values = {
        None: None,
        "text": pa.array([str(zero) for zero in zeros]),
        "null": pa.array([None, *zeros[1:]], pa.int64()),
        "zero": pa.array(zeros),
    }[change]
    with pytest.raises(FormatError, match=message):
        type(sketch).from_arrow(damaged(packed, header=header, column=column, values=values))


@pytest.mark.parametrize(
    ("kind", "header", "column", "message"),
    [
        ("lossy_counting", {"error": 0}, None, "error is not a share"),
        ("lossy_counting", {"error": float("nan")}, None, "error is not a share"),
        ("lossy_counting", {"undercount_bound": 777}, None, "undercount bound is too high"),
        ("lossy_counting", {}, "max_undercount", "not within the undercount bound"),
        ("sliding_lossy_counting", {"counters": 1}, None, "too few counters"),
        ("sliding_lossy_counting", {"counters": 2**60}, None, "or too many"),
        ("sliding_lossy_counting", {"window": 90}, None, "window does not fit"),
        ("sliding_lossy_counting", {"n": 2000}, None, "do not cover"),
        ("sliding_lossy_counting", {"counter_n": [1, 2]}, None, "a counter is missing"),
        ("sliding_lossy_counting", {"counter_n": "abc"}, None, "a counter is missing"),
        ("sliding_lossy_counting", {"counter_n": ["a", "b", "c"]}, None, "n is not a whole number"),
        ("sliding_lossy_counting", {}, "counter", "belongs to no counter"),
        ("space_saving", {"capacity": 3}, None, "capacity does not fit"),
        ("space_saving", {"capacity": 0}, None, "capacity does not fit"),
        ("space_saving", {"capacity": 2**50}, None, "capacity does not fit"),
        ("space_saving", {}, "error", "not less than its count"),
    ],
    indirect=["kind"],
)
def test_parameters_that_cannot_be_are_refused(sketch, header, column, message):
    sketch.update(STREAM)
    packed = sketch.to_arrow()
    values = pa.array([10**6] * packed.num_rows) if column else None
    with pytest.raises(FormatError, match=message):
        type(sketch).from_arrow(damaged(packed, header=header, column=column, values=values))


def test_a_table_that_is_no_sketch_is_refused(sketch):
    plain = sketch.to_arrow().replace_schema_metadata(None)
    for table in (plain, plain.replace_schema_metadata({"unskew.sketch": "{"}), pa.table({"x": [1]})):
        with pytest.raises(FormatError, match="not a sketch"):
            type(sketch).from_arrow(table)
