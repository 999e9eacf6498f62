"""The codec gives back what it was given, and never something else."""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import pickle
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from types import MappingProxyType, SimpleNamespace
from typing import Any, Literal, Optional, TypeVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from unskew import codec, codec_kinds
from unskew.codec import dump, load
from unskew.errors import ArgumentError, FormatError
from unskew.load.channels import ChannelUse
from unskew.load.statistics import Statistics
from unskew.planners.memory import Memory
from unskew.planners.report import Report
from unskew.routing.table import RoutingTable


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1


@dataclass(frozen=True)
class Leaf:
    number: int
    text: str = "leaf"


@dataclass(frozen=True)
class Other:
    flag: bool


@dataclass(frozen=True)
class Everything:
    whole: int
    real: float
    text: str
    yes: bool
    nothing: None
    raw: bytes
    perhaps: Optional[int]  # noqa: UP045
    leaf: Leaf | None
    either: Leaf | Other | None
    scalar: str | int | float | bool | None
    many: tuple[Leaf, ...]
    pair: tuple[int, tuple[bytes, str]]
    rows: list[list[float]]
    by_number: Mapping[int, tuple[int, ...]]
    by_name: dict[str, bytes]
    colours: dict[Colour, float]
    colour: Colour
    mode: Literal["fast", "safe"]
    anything: Any


@dataclass(frozen=True, eq=False)
class Arrays:
    array: NDArray[Any]
    table: pa.Table = field(default_factory=lambda: pa.table({"a": [1]}))
    column: pa.Array | None = None


@dataclass(frozen=True)
class Tree:
    name: str
    children: tuple[Tree, ...] = ()


@dataclass(frozen=True)
class Computed:
    given: int
    doubled: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", self.given * 2)


leaves = st.builds(Leaf, st.integers(), st.text())
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
everything = st.builds(
    Everything,
    whole=st.integers(),
    real=st.floats(allow_nan=False),
    text=st.text(),
    yes=st.booleans(),
    nothing=st.none(),
    raw=st.binary(),
    perhaps=st.none() | st.integers(),
    leaf=st.none() | leaves,
    either=st.none() | leaves | st.builds(Other, st.booleans()),
    scalar=st.none() | st.text() | st.integers() | st.floats(allow_nan=False) | st.booleans(),
    many=st.lists(leaves, max_size=3).map(tuple),
    pair=st.tuples(st.integers(), st.tuples(st.binary(), st.text())),
    rows=st.lists(st.lists(st.floats(allow_nan=False), max_size=3), max_size=3),
    by_number=st.dictionaries(st.integers(), st.lists(st.integers(), max_size=3).map(tuple), max_size=3),
    by_name=st.dictionaries(st.text(), st.binary(), max_size=3),
    colours=st.dictionaries(st.sampled_from(Colour), st.floats(allow_nan=False)),
    colour=st.sampled_from(Colour),
    mode=st.sampled_from(["fast", "safe"]),
    anything=json_values,
)
dtypes = (
    hnp.boolean_dtypes()
    | hnp.integer_dtypes()
    | hnp.unsigned_integer_dtypes()
    | hnp.floating_dtypes()
    | hnp.complex_number_dtypes()
    | hnp.datetime64_dtypes()
    | hnp.byte_string_dtypes()
    | hnp.unicode_string_dtypes()
)
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
EXAMPLE = Everything(
    1, 2.0, "c", True, None, b"raw", None, Leaf(4), Other(False), 5, (Leaf(6),), (7, (b"h", "i")), [[9.0]], {10: (11,)},
    {"l": b"m"}, {Colour.RED: 0.5}, Colour.BLUE, "fast", {"n": [1, None]},
)  # fmt: skip


def types_of(value: Any) -> Any:
    """Return the value with the type of everything in it, so that 1, 1.0 and True differ."""
    if dataclasses.is_dataclass(value):
        return type(value), [types_of(getattr(value, each.name)) for each in dataclasses.fields(value)]
    if isinstance(value, dict):
        return type(value), [(types_of(k), types_of(v)) for k, v in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [types_of(each) for each in value]
    return type(value), repr(value)


@given(everything)
def test_a_value_comes_back_with_all_its_types(value):
    assert types_of(load(Everything, dump(value))) == types_of(value)


@given(everything)
def test_equal_values_give_equal_bytes(value):
    assert dump(value) == dump(pickle.loads(pickle.dumps(value)))


@given(arrays)
def test_an_array_keeps_dtype_shape_and_bits(array):
    back = load(Arrays, dump(Arrays(array))).array
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert back.flags.writeable


def test_an_array_in_another_order_of_memory_keeps_its_values():
    array = np.asfortranarray(np.arange(12).reshape(3, 4))[:, ::2]
    assert np.array_equal(load(Arrays, dump(Arrays(array))).array, array)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None, 3]),
        pa.array(["a", "b", "c"])[1:],
        pa.array([], pa.string()),
        pa.nulls(3),
        pa.array(["x", "y", "x"]).dictionary_encode(),
        pa.array([[1], [], None]),
        pa.array([{"a": 1, "b": "z"}]),
        pa.array([1, 2], pa.decimal128(5, 2)),
    ],
)
def test_arrow_comes_back(column):
    table = pa.table({"c": pa.chunked_array([column, column]), "d": pa.chunked_array([column, column])})
    table = table.replace_schema_metadata({"who": "me"})
    back = load(Arrays, dump(Arrays(np.zeros(1), table, column)))
    assert back.table.equals(table, check_metadata=True)
    assert back.column.equals(column)
    assert back.column.type == column.type
    back.table.validate(full=True)
    back.column.validate(full=True)


def test_numbers_that_are_not_finite_come_back():
    @dataclass(frozen=True)
    class Numbers:
        real: float
        either: float | str

    for value in (math.inf, -math.inf):
        assert load(Numbers, dump(Numbers(value, value))) == Numbers(value, value)
    back = load(Numbers, dump(Numbers(math.nan, math.nan)))
    assert math.isnan(back.real)
    assert math.isnan(back.either)


def test_scalars_of_numpy_become_pythons():
    given = dataclasses.replace(
        EXAMPLE,
        whole=np.int64(-3),
        real=np.float32(0.5),
        yes=np.bool_(True),
        perhaps=np.uint8(7),
        scalar=np.float64(1.5),
        by_number={np.int64(1): (np.int32(2),)},
        text=Colour.RED,
        anything=[np.int64(1), np.float64(2.5)],
    )
    expected = dataclasses.replace(
        EXAMPLE, whole=-3, real=0.5, yes=True, perhaps=7, scalar=1.5, by_number={1: (2,)}, text="red", anything=[1, 2.5]
    )
    assert types_of(load(Everything, dump(given))) == types_of(expected)


def test_a_mapping_of_any_class_comes_back_as_a_dict():
    given = dataclasses.replace(EXAMPLE, by_number=MappingProxyType({2: (1,), 1: ()}))
    assert list(load(Everything, dump(given)).by_number.items()) == [(2, (1,)), (1, ())]


def test_a_class_may_hold_its_own_kind():
    tree = Tree("root", (Tree("left"), Tree("right", (Tree("leaf"),))))
    assert load(Tree, dump(tree)) == tree


def test_computed_fields_are_computed_again():
    assert load(Computed, dump(Computed(4))) == Computed(4)


@given(st.data())
def test_any_flipped_bit_is_noticed(data):
    written = bytearray(dump(EXAMPLE))
    place = data.draw(st.integers(0, len(written) - 1))
    written[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(FormatError, match=r"(?s)in ck/record 7.*Hint: "):
        load(Everything, bytes(written), "ck/record 7")


def test_every_flipped_byte_is_noticed():
    written = dump(Leaf(1))
    for place in range(len(written)):
        changed = bytearray(written)
        changed[place] ^= 0xFF
        with pytest.raises(FormatError, match="in here"):
            load(Leaf, bytes(changed), "here")


@pytest.mark.parametrize("keep", [0, 5, 12, 19, 20, -1])
def test_bytes_that_were_cut_short(keep):
    with pytest.raises(FormatError):
        load(Leaf, dump(Leaf(1))[:keep])


def test_bytes_with_something_behind_them():
    with pytest.raises(FormatError, match="checksum"):
        load(Leaf, dump(Leaf(1)) + b"\0")


def test_an_arrow_buffer_is_read_as_well():
    assert load(Leaf, pa.py_buffer(dump(Leaf(1)))) == Leaf(1)


def rewritten(monkeypatch: pytest.MonkeyPatch, value: Any, **changes: Any) -> bytes:
    """Return what a version with other fields would have written."""
    original = codec._body

    def body(head, sections):
        fields = {name: each for name, each in (head["value"] | changes).items() if each is not ...}
        return original({**head, "value": fields}, sections)

    with monkeypatch.context() as patch:
        patch.setattr(codec, "_body", body)
        return dump(value)


def test_an_unknown_field_is_of_a_newer_unskew(monkeypatch):
    written = rewritten(monkeypatch, Leaf(1), colour="red")
    with pytest.raises(FormatError, match=r"Leaf was written by a newer unskew, got \['colour'\] \(in x\)\. Hint: "):
        load(Leaf, written, "x")


def test_a_missing_field_takes_its_default_or_is_an_error(monkeypatch):
    assert load(Leaf, rewritten(monkeypatch, Leaf(1, "other"), text=...)) == Leaf(1, "leaf")
    assert load(Arrays, rewritten(monkeypatch, Arrays(np.zeros(1)), table=...)).table.equals(pa.table({"a": [1]}))
    with pytest.raises(FormatError, match=r"Leaf has no value for number \(in x\)"):
        load(Leaf, rewritten(monkeypatch, Leaf(1), number=...), "x")


@pytest.mark.parametrize("number", ["one", 1.5, None, True, [1]])
def test_a_field_of_another_type_is_an_error(monkeypatch, number):
    with pytest.raises(FormatError, match="not an integer"):
        load(Leaf, rewritten(monkeypatch, Leaf(1), number=number))


def test_a_class_that_refuses_its_fields(monkeypatch):
    written = rewritten(monkeypatch, RoutingTable.initial(2, 4), channels=1)
    with pytest.raises(FormatError, match=r"do not make a valid RoutingTable: channel 1 is not in 0\.\.0"):
        load(RoutingTable, written, "x")


def test_bytes_of_another_class():
    with pytest.raises(FormatError, match=r"the bytes hold a Leaf, not a Other \(in x\)"):
        load(Other, dump(Leaf(1)), "x")


@pytest.mark.parametrize(
    ("field_name", "value", "message"),
    [
        ("whole", True, "not an integer, got True (in Everything.whole)"),
        ("whole", 1.0, "not an integer"),
        ("real", "1", "not a number"),
        ("text", b"x", "not a string"),
        ("yes", 1, "not a boolean"),
        ("nothing", 0, "not None"),
        ("raw", "x", "not bytes"),
        ("leaf", Other(True), "not of class Leaf"),
        ("either", 1, "not of class Leaf or Other"),
        ("scalar", b"x", "not a string or an integer or a number or a boolean"),
        ("many", [Leaf(1)], "not a tuple"),
        ("many", (Leaf(1), Leaf("x")), "(in Everything.many[1].number)"),
        ("pair", (1,), "not a tuple of 2"),
        ("by_number", {"a": ()}, "not an integer"),
        ("colour", "red", "not of class Colour"),
        ("mode", "slow", "not one of 'fast', 'safe'"),
        ("anything", {"a": (1, 2)}, "not a JSON value, got (1, 2) (in Everything.anything['a'])"),
        ("anything", {1: 2}, "not a JSON value"),
    ],
)
def test_a_value_that_does_not_fit_its_hint(field_name, value, message):
    with pytest.raises(ArgumentError) as caught:
        dump(dataclasses.replace(EXAMPLE, **{field_name: value}))
    assert message in str(caught.value)


@pytest.mark.parametrize("array", [[1], np.array([object()]), np.ma.masked_array([1], [True]), np.zeros(1, "i4,i4")])
def test_an_array_that_cannot_be_written(array):
    with pytest.raises(ArgumentError, match=r"Arrays\.array"):
        dump(Arrays(array))


def test_a_subclass_is_refused_because_its_fields_would_be_lost():
    @dataclass(frozen=True)
    class Larger(Leaf):
        size: int = 0

    with pytest.raises(ArgumentError, match="not of class Leaf"):
        dump(dataclasses.replace(EXAMPLE, leaf=Larger(1)))


@pytest.mark.parametrize("hint", [set[int], complex, dict[float, int], int | bytes, object, tuple])
def test_a_hint_that_the_codec_does_not_know(hint):
    unknown = dataclasses.make_dataclass("Unknown", [("x", hint)], frozen=True)
    with pytest.raises(ArgumentError, match=r"in Unknown\.x"):
        dump(unknown(None))


@pytest.mark.parametrize("value", [1, Leaf, None])
def test_only_dataclasses_are_dumped(value):
    with pytest.raises(ArgumentError, match="only an instance of a dataclass"):
        dump(value)


def test_an_enum_of_integers():
    levels = dataclasses.make_dataclass("Levels", [("level", Level)], frozen=True)
    assert load(levels, dump(levels(Level.LOW))).level is Level.LOW


def test_a_routing_table():
    random = np.random.default_rng(0)
    hashes = random.integers(-(2**63), 2**63, 2000)
    table = RoutingTable.initial(8).with_explicit(hashes, random.integers(0, 8, 2000)).with_split({-5: (3, 1, 2)})
    back = load(RoutingTable, dump(table))
    assert back == table
    assert back.slots.dtype == np.int32


def test_statistics_with_names_and_use():
    use = ChannelUse(10.0, idle_seconds=np.array([0.5, 2.0]))
    statistics = dataclasses.replace(
        Statistics.of_keys([7, 3], [5.0, 1.0], keys=pa.array(["seven", "three"])), distinct_keys=40.5, use=use
    )
    back = load(Statistics, dump(statistics))
    assert back.hashes.tolist() == [3, 7]
    assert back.cost.tolist() == [1.0, 5.0]
    assert back.keys.to_pylist() == ["three", "seven"]
    assert back.distinct_keys == 40.5
    assert isinstance(back.use, ChannelUse)
    assert back.use.idle_seconds.tolist() == [0.5, 2.0]


def test_the_memory_of_a_planner():
    memory = Memory({"batches": 4, "share": 1.0, "name": "x", "on": True}, {"t": pa.table({"a": [1, 2]})})
    back = load(Memory, dump(memory))
    assert back == memory
    assert types_of(dict(back.values)) == types_of(dict(memory.values))
    assert load(Memory, dump(Memory())) == Memory()


def test_a_report():
    report = Report("mixed", 4, 0.5, 0.01, 0.02, 3.0, 0.1, 2, 1, 0, 0.4, math.inf, (1, -2), ("cold",), 0.001)
    assert load(Report, dump(report)) == report


def test_the_header_can_be_read_without_unskew():
    written = dump(Leaf(3, "x"))
    body = pa.decompress(written[20:], int.from_bytes(written[12:20], "little"), codec="zstd", asbytes=True)
    head = json.loads(body[4 : 4 + int.from_bytes(body[:4], "little")])
    assert head == {"class": "Leaf", "value": {"number": 3, "text": "x"}, "sections": []}


def test_threads_parse_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 fails if two threads make syntax trees at once, as when several queries start together."""
    at_once, most = [0], []

    def parse(source: str) -> ast.Module:
        at_once[0] += 1
        most.append(at_once[0])
        time.sleep(0.01)
        at_once[0] -= 1
        return ast.Module([], [])

    monkeypatch.setattr(codec_kinds, "ast", SimpleNamespace(**vars(ast) | {"parse": parse}))
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(codec_kinds._checkers_imports, ["unskew.codec_kinds"] * 4))
    assert most == [1] * 4


def test_an_alias_is_what_it_stands_for():
    """As `NDArray` is in NumPy 2.5 and newer."""
    kind = TypeVar("kind", bound=np.generic)
    alias = pytest.importorskip("typing_extensions").TypeAliasType(
        "Numbers", np.ndarray[Any, np.dtype[kind]], type_params=(kind,)
    )
    sections: list[Any] = []
    written = codec_kinds.kind_of(alias[np.int64], "here").write(np.arange(3), sections, "here")
    assert written == [0, "<i8", (3,)]
