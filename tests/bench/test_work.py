from __future__ import annotations

import time

from unskew_lab.bench.work import spend


def test_computing_holds_a_core_and_waiting_does_not():
    before = time.thread_time()
    spend(0.05, "cpu")
    computed = time.thread_time()
    spend(0.05, "wait")
    assert computed - before >= 0.05
    assert time.thread_time() - computed < 0.02
