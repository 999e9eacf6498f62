"""Per-key functions that hang, fork, exit, print, or answer nonsense: right rows, or an error that names the key."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.types import LongType, StringType, StructType

import unskew
from unskew.errors import ArgumentError
from unskew.spark.per_key import LeanFunction, PandasFunction
from unskew.testing import run, write_batches

OUTPUT = StructType().add("user", StringType()).add("n", LongType())
KEPT = StructType().add("n", LongType())
USERS = pa.table({"user": ["ada", "bob", "cy"]})
Answer = Callable[[], Any]


def lean(answer: Answer, **options: Any) -> LeanFunction:
    """Return a function that answers as told for bob, and well for everybody else."""

    def function(key: Any, rows: Any, state: Any) -> Any:
        return answer() if key[0] == "bob" else ((1,), (key[0], 1))

    return LeanFunction(function, OUTPUT, KEPT, **options)


def pandas(answer: Answer, **options: Any) -> PandasFunction:
    def function(key: Any, frames: Any, state: Any) -> Any:
        return answer() if key[0] == "bob" else [pd.DataFrame({"user": [key[0]], "n": [1]})]

    return PandasFunction(function, OUTPUT, KEPT, **options)


def told(operator: Any) -> str:
    """Run a batch that must fail; return the error as the user reads it."""
    with pytest.raises(BaseException) as failure:
        run(operator, [USERS], key="user")
    return "\n".join([f"{type(failure.value).__name__}: {failure.value}", *getattr(failure.value, "__notes__", ())])


def wait() -> None:
    while True:
        try:
            time.sleep(60)
        except Exception:
            continue


def spin() -> None:
    while True:
        pass


@pytest.mark.parametrize("form", [lean, pandas])
@pytest.mark.parametrize("hang", [wait, spin])
def test_a_call_that_hangs_is_ended_and_named(form: Any, hang: Answer) -> None:
    text = told(form(hang, max_call_seconds=0.05))
    assert text == (
        "BatchError: a call took longer than 0.05 seconds (in the call for key 'bob' of batch 0). "
        "Hint: find out what it waits for, or allow more with max_call_seconds=."
    )


def test_a_generator_that_hangs_is_ended_too() -> None:
    def frames() -> Any:
        yield pd.DataFrame({"user": ["bob"], "n": [1]})
        spin()

    assert "took longer than 0.05 seconds (in the call for key 'bob'" in told(pandas(frames, max_call_seconds=0.05))


def test_a_limit_counts_for_each_call_and_leaves_nothing_behind() -> None:
    before = signal.getsignal(signal.SIGALRM)

    def function(key: Any, rows: Any, state: Any) -> Any:
        time.sleep(0.15)
        return (1,), (key[0], 1)

    result = run(LeanFunction(function, OUTPUT, KEPT, max_call_seconds=0.4), [USERS], key="user")
    assert result.outputs[0].num_rows == 3, "together the calls take longer than the limit"
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


ANSWERS: dict[str, tuple[Answer, str]] = {
    "nothing": (lambda: None, r"returns \(state, output\) or \(state, output, deadline_ms\), got 'None'"),
    "a number": (lambda: 5, r"returns \(state, output\)"),
    "too few": (lambda: ((1,),), r"returns \(state, output\)"),
    "too many": (lambda: (1, 2, 3, 4), r"returns \(state, output\)"),
    "a frame": (lambda: pd.DataFrame({"user": ["bob"], "n": [1]}), r"returns \(state, output\)"),
    "a number as state": (lambda: (5, None), "one value for each field, got 5"),
    "text as state": (lambda: ("x", None), "one value for each field, got 'x'"),
    "a wide state": (lambda: ((1, 2), None), r"one value for each field, got \(1, 2\)"),
    "text in the state": (lambda: (("x",), None), "does not fit the type int64"),
    "an infinite state": (lambda: ((float("inf"),), None), "does not fit the type int64"),
    "a large state": (lambda: ((1 << 70,), None), "does not fit the type int64"),
    "a number as output": (lambda: ((1,), 5), "cannot return this as output, got 'int'"),
    "a frame as output": (lambda: ((1,), pd.DataFrame({"n": [1]})), "cannot return this as output"),
    "a narrow row": (lambda: ((1,), ("bob",)), "a tuple of 2 values"),
    "rows in rows": (lambda: ((1,), [[("bob", 1)]]), "a tuple of 2 values"),
    "other columns": (lambda: ((1,), {"user": ["bob"]}), "other columns than its schema"),
    "uneven columns": (lambda: ((1,), {"user": ["bob"], "n": [1, 2]}), "differ in length"),
    "a deadline in words": (lambda: ((1,), None, "soon"), "timeouts are off"),
    "an exit": (lambda: sys.exit(3), "SystemExit: 3"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_nonsense_is_refused_with_the_key(name: str) -> None:
    answer, message = ANSWERS[name]
    text = told(lean(answer))
    assert re.search(message, text), text
    assert "in the call for key 'bob' of batch 0" in text


@pytest.mark.parametrize("deadline", ["soon", 1.5, True])
def test_deadlines_are_whole_numbers(deadline: Any) -> None:
    text = told(lean(lambda: ((1,), None, deadline), timeout="ProcessingTimeTimeout"))
    assert "must be a whole number" in text and "in deadline_ms" in text and "key 'bob'" in text


@pytest.mark.parametrize("ends", [lambda: ((1,), ("bob", 2)), lambda: sys.exit(1), lambda: 1 / 0])
def test_a_fork_that_comes_back_is_ended(ends: Answer) -> None:
    """Two processes would answer Spark through one socket."""

    def answer() -> Any:
        child = os.fork()
        if child == 0:
            return ends()
        statuses.append(os.waitpid(child, 0)[1])
        return (1,), ("bob", 7)

    statuses: list[int] = []
    rows = run(lean(answer), [USERS], key="user").outputs[0].to_pylist()
    assert {row["user"]: row["n"] for row in rows} == {"ada": 1, "bob": 7, "cy": 1}
    assert statuses == [0]


def test_a_state_without_fields() -> None:
    """It is kept: a key that is known, and nothing else about it."""

    def function(key: Any, rows: Any, state: Any) -> Any:
        return (), (key[0], 0 if state is None else 1)

    outputs = run(LeanFunction(function, OUTPUT, StructType()), [USERS, USERS], key="user").outputs
    assert [sorted(output.column("n").to_pylist()) for output in outputs] == [[0, 0, 0], [1, 1, 1]]


@pytest.mark.spark
@pytest.mark.slow
def test_on_spark(spark: Any, tmp_path: Path) -> None:
    """A worker that dies, one that hangs, one that forks and prints: an error in words, or the right rows."""
    write_batches(tmp_path / "rows", [USERS])
    events = spark.readStream.schema("user string").parquet(str(tmp_path / "rows"))

    def after(answer: Answer, **options: Any) -> Any:
        def function(key: Any, rows: Any, state: Any) -> Any:
            return answer() if key[0] == "bob" else ((1,), (key[0], 1))

        found: list[Any] = []
        stage = unskew.balance(events, "user", channels=2).apply_per_key(function, OUTPUT, KEPT, **options)
        writer = stage.writeStream.trigger(availableNow=True).foreachBatch(lambda rows, _: found.extend(rows.collect()))
        query = writer.start()
        try:
            assert query.awaitTermination(300), "never a hang"
        except StreamingQueryException as error:
            return str(error)
        finally:
            query.stop()
        return {row.user: row.n for row in found}

    def loud() -> Any:
        print("to stdout")
        os.write(1, b"to the descriptor")
        if os.fork() == 0:
            return (1,), ("bob", 0)
        return (1,), ("bob", 7)

    assert after(loud) == {"ada": 1, "bob": 7, "cy": 1}
    died = after(lambda: os._exit(3))
    assert "a Python worker died in the middle of batch 0" in died and "faulthandler" in died
    hung = after(lambda: time.sleep(1000), max_call_seconds=0.5)
    assert "a call took longer than 0.5 seconds (in the call for key 'bob' of batch 0)" in hung
    assert "time.sleep(1000)" in hung, "the error shows where the function waited"


def test_a_limit_is_part_of_the_call_not_of_the_checkpoint() -> None:
    assert repr(lean(lambda: None)) == repr(lean(lambda: None, max_call_seconds=3))
    with pytest.raises(ArgumentError, match=r"a number, at least 0.001, got -1 \(in max_call_seconds\)"):
        lean(lambda: None, max_call_seconds=-1)
