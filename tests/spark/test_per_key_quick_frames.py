"""Frames made by the short way, against those that pandas makes of the same lists."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.spark.per_key.quick_frames import MOST_ROWS, quick_frames

VALUES: dict[str, Any] = {
    "bool": st.booleans(),
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(),
    "text": st.text(max_size=3),
    "numpy int": st.integers(-(2**63), 2**63 - 1).map(np.int64),
    "numpy float": st.floats().map(np.float64),
    "numpy bool": st.booleans().map(np.bool_),
    "small numpy": st.integers(0, 9).map(np.int32),
    "anything": st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=2), st.booleans()),
    "times": st.datetimes().map(pd.Timestamp),
}


@st.composite
def columns(draw: Any) -> dict[Any, Any]:
    """Return lists of one length by name, of one kind each, or of many."""
    length = draw(st.integers(0, 4))
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=6))
    return {
        f"column {place}": draw(st.lists(VALUES[kind], min_size=length, max_size=length))
        for place, kind in enumerate(kinds)
    }


def looks(frame: pd.DataFrame) -> Any:
    """Return all that there is to see of a frame, within and without."""
    blocks = [
        (type(block), block.dtype, block.values.shape, block.mgr_locs.as_array.tolist(), block.is_view)
        for block in frame._mgr.blocks
    ]
    values = [(type(value), repr(value)) for name in frame for value in frame[name].tolist()]
    index = frame.index
    return blocks, values, repr(frame.columns), type(index), repr(index), frame.attrs, frame.flags, str(frame)


@given(columns())
def test_a_frame_is_the_one_that_pandas_makes(data: dict[Any, Any]) -> None:
    try:
        wanted = looks(pd.DataFrame(data))
    except Exception as error:
        with quick_frames(), pytest.raises(type(error)):
            pd.DataFrame(data)
        return
    with quick_frames():
        for _ in range(3):  # the first frame of a kind is made by pandas itself
            assert looks(pd.DataFrame(data)) == wanted


def test_a_frame_is_nobody_elses() -> None:
    data = {"key": ["a"], "n": [1], "m": [2], "x": [0.5]}
    plain = pd.DataFrame(data)
    with quick_frames():
        for _ in range(3):
            frame = pd.DataFrame(data)
            pd.testing.assert_frame_equal(frame, plain)
            frame.columns.name, frame.index.name = "name", "other"
            frame["n"] = ["text"]
            frame["new"] = 5
            frame.loc[3] = ["b", "c", 3, 1.5, 6]
            frame.insert(0, "first", [1, 2])
            frame.attrs["seen"] = True
            del frame["m"]
            assert list(frame.columns) == ["first", "key", "n", "x", "new"]
            other = pd.DataFrame(data)
            other.loc[0, "m"] = 7
            other.columns = list("wxyz")
            assert data == {"key": ["a"], "n": [1], "m": [2], "x": [0.5]}


def test_what_pandas_is_asked_otherwise_it_does_itself() -> None:
    class Mine(pd.DataFrame):
        pass

    with quick_frames():
        for _ in range(3):
            assert pd.DataFrame({"n": [1, 2]}, index=[5, 6]).index.tolist() == [5, 6]
            assert pd.DataFrame({"n": [1]}, dtype="int8")["n"].dtype == np.int8
            assert pd.DataFrame(data={"n": [1]}, columns=["m"])["m"].isna().all()
            assert pd.DataFrame({"n": (1, 2)})["n"].tolist() == [1, 2]
            assert pd.DataFrame({1: [1]}).columns.tolist() == [1]
            assert pd.DataFrame({"n": [2**64]})["n"].dtype == object
            assert pd.DataFrame({"n": [2**63]})["n"].dtype == np.uint64
            assert pd.DataFrame({"n": [1, 2.5], "s": "x"})["n"].tolist() == [1.0, 2.5]
            assert math.isnan(pd.DataFrame({"n": [1, None]})["n"][1])
            assert len(pd.DataFrame({"n": list(range(MOST_ROWS + 1))})) == MOST_ROWS + 1
            assert type(Mine({"n": [1]})) is Mine
            assert pd.DataFrame({"n": [1]}, copy=False)["n"].tolist() == [1]
            with pytest.raises(ValueError, match="same length"):
                pd.DataFrame({"n": [1], "m": [1, 2]})
            with pd.option_context("future.infer_string", True):
                assert pd.DataFrame({"s": ["x"]})["s"].dtype != object
            assert pd.DataFrame({"s": ["x"]})["s"].dtype == object


def test_afterwards_pandas_is_as_it_was() -> None:
    before = pd.DataFrame.__init__
    with quick_frames():
        with quick_frames():
            assert pd.DataFrame.__init__ is not before
        assert pd.DataFrame.__init__ is not before
    assert pd.DataFrame.__init__ is before
    with pytest.raises(KeyError), quick_frames():
        raise KeyError
    assert pd.DataFrame.__init__ is before
