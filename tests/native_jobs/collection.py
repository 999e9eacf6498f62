"""All jobs of the collection, by name."""

from __future__ import annotations

from native_jobs import clocks, every_method, functions, kinds, lists, maps, shapes, timers, values

PARTS = (every_method, values, lists, maps, timers, clocks, shapes, kinds, functions)
CASES = {name: case for part in PARTS for name, case in part.CASES.items()}
assert len(CASES) == sum(len(part.CASES) for part in PARTS), "two jobs have one name"
