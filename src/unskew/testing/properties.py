"""The properties of operators. Each is a function that returns None, or says how the operator fails."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from unskew.hashing import hash_keys
from unskew.operators import Mergeable, Operator
from unskew.state import Groups, KeyedState, MemoryStore, group_rows
from unskew.testing.compare import Same, difference
from unskew.testing.run import RunResult, input_schema, run
from unskew.testing.steps import ABORT, ADVANCE, RESTART, Event, disturbed

_SLOTS = 16
_CENTURY_MS = 100 * 365 * 86_400_000
_REPEATS = 8
_GROWTH_ALLOWED = 1.2

Batches = Sequence[pa.Table]


@dataclass(frozen=True)
class Case:
    """An operator and how to try it."""

    operator: Operator
    key: tuple[str, ...]
    watermark: tuple[str, str] | None
    tolerance: float
    same: Same | None
    channels: int
    seeds: int

    def bound(self, batches: Batches) -> Operator:
        return self.operator.bind(input_schema(batches, self.watermark), self.key)

    def run(
        self, steps: Sequence[pa.Table | Event], *, channels: int = 1, seed: int = 0, parts: int = 1
    ) -> RunResult | str:
        """Return the result, or say how the operator failed."""
        try:
            return self.plain(steps, channels=channels, seed=seed, parts=parts)
        except Exception as error:
            return f"it raises {type(error).__name__}: {error}"

    def plain(self, steps: Sequence[pa.Table | Event], **options: int) -> RunResult:
        """Return the result; errors are the caller's."""
        return run(self.operator, steps, key=self.key, slots=_SLOTS, isolated=True, watermark=self.watermark, **options)

    def rows_differ(self, operator: Operator, expected: pa.Table, got: pa.Table) -> str | None:
        if self.same is not None:
            return None if self.same(expected, got) else f"expected {expected.to_pylist()}\ngot      {got.to_pylist()}"
        by = operator.output_key if operator.output_mode == "update" else ()
        return difference(expected, got, self.tolerance, [name for name in by if name in expected.column_names])

    def states_differ(self, expected: pa.Table, got: pa.Table) -> str | None:
        if self.same is not None:
            return None
        keys = [name for name in expected.column_names if name.startswith("key.")]
        found = difference(expected, got, self.tolerance, keys)
        return None if found is None else f"the final state differs:\n{found}"

    def runs_differ(self, operator: Operator, expected: RunResult, got: RunResult | str) -> str | None:
        if isinstance(got, str):
            return got
        for number, (one, other) in enumerate(zip(expected.outputs, got.outputs, strict=True)):
            found = self.rows_differ(operator, one, other)
            if found is not None:
                return f"in batch {number}:\n{found}"
        return self.states_differ(expected.state, got.state)


def other_batches(case: Case, batches: Batches) -> str | None:
    """Cut the batches into parts; if neither time nor rounds matter, also join them."""
    operator = case.bound(batches)
    expected = _in_the_end(operator, case.plain(batches).outputs)
    runs = [case.run(batches, seed=seed, parts=seed + 2) for seed in range(case.seeds)]
    if operator.time_mode == "none" and not operator.learns:
        runs.append(case.run([pa.concat_tables(batches)]))
    return _first(
        got if isinstance(got, str) else case.rows_differ(operator, expected, _in_the_end(operator, got.outputs))
        for got in runs
    )


def moved_state(case: Case, batches: Batches) -> str | None:
    """Extract the final state, half by key and half by slot, and install it elsewhere."""
    operator, held = case.bound(batches), case.plain(batches).state
    keys, _ = KeyedState.group_stored_rows(held, operator.key_schema, operator.value_schema)
    stored, true = keys.hashes, hash_keys(keys.keys, operator.key) if len(keys) else keys.hashes
    if (stored != true).any():
        wrong = keys.keys.slice(int(np.argmax(stored != true)), 1).to_pylist()[0]
        return f"the state of {wrong} is stored under another key's hash: use the groups that `update` gets"
    with _opened(operator) as one, _opened(operator) as other:
        one.install(held)
        by_key = one.extract(stored[::2])
        by_slot = one.extract(slots=np.arange(_SLOTS))
        other.install(pa.concat_tables([by_slot, by_key]))
        everything = pa.concat_tables([held.slice(0, 0), *other.scan()])
        if one.rows:
            return f"keys left after all were extracted: {one.rows}"
    return difference(held, everything, 0.0, [name for name in held.column_names if name.startswith("key.")])


def merging(case: Case, batches: Batches) -> str | None:
    """Merge the states of parts in several orders."""
    operator = case.bound(batches)
    if not isinstance(operator, Mergeable):
        return None
    rows = operator.expand(pa.concat_tables(batches)).combine_chunks()
    whole = _partial(operator, rows)
    expected = _finished(operator, whole)
    for seed in range(case.seeds):
        random = np.random.default_rng(seed)
        bounds = [0, *np.sort(random.integers(rows.num_rows + 1, size=3)).tolist(), rows.num_rows]
        parts = [_partial(operator, rows.slice(a, b - a)) for a, b in pairwise(bounds)]
        nothing = _all_null(operator, whole)
        orders = {
            "from left to right": functools.reduce(lambda a, b: _merged(operator, [a, b]), parts),
            "from right to left": functools.reduce(lambda a, b: _merged(operator, [b, a]), reversed(parts)),
            "all at once": _merged(operator, parts),
            "with states that are all null": _merged(operator, [nothing, *parts, nothing]),
        }
        if operator.commutative:
            orders["in another order"] = _merged(operator, [parts[place] for place in random.permutation(len(parts))])
        for order, merged in orders.items():
            found = case.rows_differ(operator, expected, _finished(operator, merged))
            if found is not None:
                return f"when parts are merged {order}:\n{found}"
    return None


def moving_keys(case: Case, batches: Batches) -> str | None:
    """Move keys and slots between channels before every batch."""
    operator = case.bound(batches)

    def steps(seed: int) -> list[pa.Table | Event]:
        keyed, given = [operator.expand(batch) for batch in batches], iter(batches)
        random = disturbed(keyed, key=operator.key, channels=case.channels, slots=_SLOTS, seed=seed)
        moves = [step for step in random if not isinstance(step, (ABORT, RESTART))]
        return [next(given) if isinstance(step, pa.Table) else step for step in moves]

    return _compared(case, batches, steps)


def running_again(case: Case, batches: Batches) -> str | None:
    """Fail in every batch, at a place that depends on the seed, and run it again."""
    steps = [step for batch in batches for step in (ABORT(), batch)]
    return _compared(case, batches, lambda seed: steps)


def bounded_memory(case: Case, batches: Batches) -> str | None:
    """Let a century pass; if time does not matter, let the same rows come many times."""
    operator = case.bound(batches)
    if operator.deadline is not None and operator.time_mode == "event":
        nothing = batches[0].slice(0, 0)
        result = case.run([*batches, nothing, ADVANCE(_CENTURY_MS), nothing, nothing])
        if isinstance(result, str):
            return result
        left = result.state.to_pylist()
        return f"keys held a century later: {len(left)}, such as {left[0]}" if left else None
    if operator.memory == "constant" and operator.time_mode == "none":
        once, twice = (case.run([*batches] * times) for times in (_REPEATS, 2 * _REPEATS))
        if isinstance(once, str) or isinstance(twice, str):
            return once if isinstance(once, str) else str(twice)
        if twice.state.nbytes > _GROWTH_ALLOWED * once.state.nbytes:
            bytes_held = f"{once.state.nbytes} bytes after {_REPEATS} times the same rows, {twice.state.nbytes} after"
            return f"its memory is not constant: {bytes_held} {2 * _REPEATS}"
    return None


PROPERTIES: dict[str, Callable[[Case, Batches], str | None]] = {
    "the same rows in other batches give the same result": other_batches,
    "extracted state can be installed elsewhere": moved_state,
    "states can be merged in any grouping and claimed order": merging,
    "a run in which keys move equals one in which they do not": moving_keys,
    "a batch that fails and runs again leaves no trace": running_again,
    "memory is bounded": bounded_memory,
}


def _compared(case: Case, batches: Batches, steps: Callable[[int], list[pa.Table | Event]]) -> str | None:
    operator, expected = case.bound(batches), case.plain(batches)
    runs = (case.run(steps(seed), channels=case.channels, seed=seed) for seed in range(case.seeds))
    return _first(case.runs_differ(operator, expected, got) for got in runs)


def _first(findings: Iterable[str | None]) -> str | None:
    return next((found for found in findings if found is not None), None)


def _in_the_end(operator: Operator, outputs: Sequence[pa.Table]) -> pa.Table:
    """Return all rows; in update mode, those that no later batch replaced."""
    rows = pa.concat_tables(outputs).combine_chunks()
    key = [name for name in operator.output_key if name in rows.column_names]
    if operator.output_mode == "append" or not key:
        return rows
    batch = np.repeat(np.arange(len(outputs)), [output.num_rows for output in outputs])
    texts = [repr(row) for row in rows.select(key).to_pylist()]
    last = dict(zip(texts, batch.tolist(), strict=True))
    kept = [last[text] == number for text, number in zip(texts, batch.tolist(), strict=True)]
    return rows.filter(pa.array(kept, pa.bool_()))


def _opened(operator: Operator) -> KeyedState:
    return KeyedState.open(
        MemoryStore(), operator.key_schema, operator.value_schema, slots=_SLOTS, deadline=operator.deadline
    )


def _partial(operator: Mergeable, rows: pa.Table) -> pa.Table:
    groups = _grouped(operator, rows)
    columns = [*groups.keys.columns, *operator.lift(rows, groups).columns]
    return pa.Table.from_arrays(columns, schema=pa.schema([*operator.key_schema, *operator.value_schema]))


def _grouped(operator: Mergeable, rows: pa.Table) -> Groups:
    return group_rows(rows, hash_keys(rows, operator.key), operator.key)


def _merged(operator: Mergeable, partials: Sequence[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(partials).combine_chunks()
    groups = _grouped(operator, rows)
    values = operator.merge(rows.select(operator.value_schema.names), groups)
    return pa.Table.from_arrays([*groups.keys.columns, *values.columns], schema=rows.schema)


def _all_null(operator: Mergeable, partial: pa.Table) -> pa.Table:
    """Return the same keys with states that are all null, as for keys that are not held."""
    nulls = [pa.nulls(partial.num_rows, field.type) for field in operator.value_schema]
    return pa.Table.from_arrays([*partial.select(list(operator.key)).columns, *nulls], schema=partial.schema)


def _finished(operator: Mergeable, partial: pa.Table) -> pa.Table:
    return operator.finish(partial.select(list(operator.key)), partial.select(operator.value_schema.names))
