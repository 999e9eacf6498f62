from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError

from unskew.spark.callback import INTERRUPTED, LONGEST, short


class FromJava(Py4JJavaError):
    """An error of Java's, without a Java to ask about it."""

    def __init__(self, text):
        Exception.__init__(self, text)

    def __str__(self):
        return self.args[0]


@pytest.mark.parametrize(
    "name",
    [
        "java.lang.InterruptedException",
        "java.io.InterruptedIOException",
        "java.nio.channels.ClosedByInterruptException",  # while Java reads the recorded rows from a file
    ],
)
def test_a_query_that_is_stopped_in_the_middle_of_a_batch_has_not_failed(name):
    error = FromJava(f"An error occurred while calling z:org.apache.spark.x.\n: {name}\n\tat java.base/sun.nio.ch")
    assert INTERRUPTED in str(short(error, 7))


def test_another_error_of_java_has_failed():
    told = str(short(FromJava("An error occurred while calling o1.x.\n: java.io.IOException: disk full"), 7))
    assert "batch 7 failed" in told
    assert "disk full" in told
    assert INTERRUPTED not in told


def test_a_long_error_keeps_its_beginning_and_its_end():
    told = str(short(ValueError("begin" + "x" * 3 * LONGEST + "end"), 7))
    assert "begin" in told
    assert "end" in told
    assert len(told) < LONGEST + 100
