"""The race with channels that compute instead of waiting, on as many channels as there are cores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from unskew.bench.skew.contenders import ROUND_ROBIN, SPARKS_HASH, mixed
from unskew.bench.skew.parts import Part
from unskew.bench.skew.race import Setup
from unskew.bench.skew.streams import shifting

MASTERS = {"local[2]": "local[2]", "two executors": "local-cluster[2,1,2048]"}


def cpu_parts(quick: bool) -> Iterator[Part]:
    """Yield a stream of Zipf 1.4 keys on two channels of one core each: in one process, and in two executors."""
    contenders = (ROUND_ROBIN, SPARKS_HASH, mixed(0.02))
    for name, master in MASTERS.items():
        stream = shifting(1.4, epochs=1, hold=6 if quick else 20)
        setup = Setup(channels=2, work_seconds=2.0 if quick else 4.0, kind="cpu", lanes=1, master=master)
        yield Part(replace(stream, name=f"computing, {name}", warm_up=4), contenders, setup)
