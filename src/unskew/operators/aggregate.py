"""Running aggregates per key, any number at once."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from functools import cached_property
from itertools import chain
from typing import Self

import numpy as np
import pyarrow as pa
from pyarrow import types

from unskew.errors import ArgumentError
from unskew.operators.aggregate_distinct import ApproximateDistinct
from unskew.operators.aggregate_functions import Count, Max, Mean, Min, Result, Sum
from unskew.operators.aggregate_order import First, Last, MaxBy, MinBy, Top
from unskew.operators.aggregate_percentile import Median, Percentile, PercentileApprox
from unskew.operators.aggregate_sets import CollectSet, CountDistinct
from unskew.operators.aggregate_variance import StddevPop, StddevSamp, VarPop, VarSamp
from unskew.operators.base import Clock, Mask, Mergeable, refuse_key_names, require_column, require_state
from unskew.operators.lists import one_array
from unskew.operators.native_buffers import BUFFERS, buffers_of, check_buffers, shared_by, state_from_buffers
from unskew.operators.presum import Presum, quoted
from unskew.state.groups import Groups

# the functions by their names in Spark; "top" is ours
RESULTS: dict[str, type[Result]] = {
    "count": Count,
    "sum": Sum,
    "mean": Mean,
    "avg": Mean,
    "min": Min,
    "max": Max,
    "var_samp": VarSamp,
    "variance": VarSamp,
    "var_pop": VarPop,
    "stddev_samp": StddevSamp,
    "stddev": StddevSamp,
    "std": StddevSamp,
    "stddev_pop": StddevPop,
    "first": First,
    "last": Last,
    "min_by": MinBy,
    "max_by": MaxBy,
    "approx_count_distinct": ApproximateDistinct,
    "top": Top,
    "count_distinct": CountDistinct,
    "collect_set": CollectSet,
    "median": Median,
    "percentile": Percentile,
    "percentile_approx": PercentileApprox,
    "approx_percentile": PercentileApprox,
}

_ANY_ROW = "*"
_COMMA = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)")  # not within backticks
_CALL = re.compile(r"\s*(\w+)\s*(?:\(\s*(.*?)\s*\))?\s*", re.DOTALL)


class Aggregate(Mergeable):
    """Keeps any number of aggregates per key and yields those of every key that had rows, as Spark's update mode does.

    `complete` gives one that yields those of all keys in every batch.

    Nulls are passed over; an aggregate over no value is null, a count 0. Types are Spark's: a sum of integers is a
    long, of floats a double, of ``decimal(p, s)`` a ``decimal(p + 10, s)``; a mean is a double, of decimals
    ``decimal(p + 4, s + 4)`` rounded half up. A sum that leaves its range is an error, as under Spark's ANSI mode. NaN
    is the greatest float. Sums of floats depend on the order of the rows in their last digits, and variances too.

    Most functions keep a state of fixed or bounded size per key: ``top`` and ``collect_set`` keep k values,
    ``approx_count_distinct`` at most 1 KB with Spark's precision, ``percentile_approx`` a summary. The exact functions
    ``count_distinct``, ``median`` and ``percentile`` keep every different value of a key, so their state grows, and
    each batch reads and writes all of it for the keys that have rows.

    Parameters
    ----------
    columns
        Name of each result, and what it is: ``"count"``, ``"count(x)"``, ``"sum(x)"``, ``"min(x)"``, ``"max(x)"``,
        ``"mean(x)"``, ``"variance(x)"``, ``"stddev(x)"``, ``"var_pop(x)"``, ``"stddev_pop(x)"``, ``"first(x)"``,
        ``"last(x)"`` (``"last(x, true)"`` passes over nulls), ``"min_by(x, y)"``, ``"max_by(x, y)"``,
        ``"approx_count_distinct(x)"``, ``"top(x, 3)"``, ``"count_distinct(x)"``, ``"count_distinct(x, y)"``,
        ``"collect_set(x, 100)"``, ``"median(x)"``, ``"percentile(x, 0.9)"``, ``"percentile_approx(x, 0.9)"``. See the
        classes in `RESULTS`. An expression stands in backticks, ``"sum(`a * b`)"``: its values are in the column that
        `expression_column` names.

    Examples
    --------
    >>> from unskew.testing import run
    >>> first = pa.table({"user": ["ada", "bob", "ada"], "amount": [1, 2, None]})
    >>> second = pa.table({"user": ["bob"], "amount": [5]})
    >>> result = run(Aggregate(n="count", total="sum(amount)", mean="mean(amount)"), [first, second], key="user")
    >>> for row in pa.concat_tables(result.outputs).to_pylist():
    ...     print(row)
    {'user': 'ada', 'n': 2, 'total': 1, 'mean': 1.0}
    {'user': 'bob', 'n': 1, 'total': 2, 'mean': 2.0}
    {'user': 'bob', 'n': 2, 'total': 7, 'mean': 3.5}
    """

    memory = "constant"

    def __init__(self, /, **columns: str) -> None:
        if not columns:
            raise ArgumentError("there is nothing to aggregate", hint='name a result, for instance n="count"')
        self.columns = columns
        self._calls = {name: parse_call(name, text) for name, text in columns.items()}

    def complete(self) -> Self:
        """Return the same aggregates in complete mode: every batch yields those of all keys."""
        whole = copy.copy(self)
        whole.output_mode = "complete"
        return whole

    def __repr__(self) -> str:
        text = f"Aggregate({', '.join(f'{name}={text!r}' for name, text in self.columns.items())})"
        return f"{text}.complete()" if self.output_mode == "complete" else text

    def check(self) -> None:
        self.__dict__.pop("_results", None)  # a copy of a bound operator has those of its old input
        refuse_key_names(self.key, self.columns)
        super().check()
        self.commutative = all(result.commutative for result in self._results)
        self.memory = "linear" if any(result.grows for result in self._results) else "constant"

    @property
    def columns_needed(self) -> tuple[str, ...]:
        return tuple(column.name for result in self._results for column in result.columns)

    @property
    def value_schema(self) -> pa.Schema:
        return pa.schema([field for result in self._results for field in result.state])

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema([*self.key_schema, *(pa.field(result.name, result.kind) for result in self._results)])

    def lift(self, rows: pa.Table, groups: Groups) -> pa.Table:
        lifted = [result.lift(_arrays(rows, result.columns), groups) for result in self._results]
        return pa.Table.from_arrays(list(chain.from_iterable(lifted)), schema=self.value_schema)

    def merge(self, values: pa.Table, groups: Groups) -> pa.Table:
        merged = [result.merge(_arrays(values, result.state), groups) for result in self._results]
        return pa.Table.from_arrays(list(chain.from_iterable(merged)), schema=self.value_schema)

    def finish(self, keys: pa.Table, values: pa.Table) -> pa.Table:
        results = [result.finish(_arrays(values, result.state)) for result in self._results]
        return pa.Table.from_arrays([*keys.columns, *results], schema=self.output_schema)

    def state_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        """Take over the buffers of a native query, too."""
        if BUFFERS not in schema.names:
            return super().state_columns(schema)
        require_state(schema, (*self.key, BUFFERS))
        self.check_buffers(schema)
        return (BUFFERS,)

    def taken_over(self, rows: pa.Table) -> tuple[pa.Table, Mask]:
        if BUFFERS not in rows.column_names:
            return super().taken_over(rows)
        return self.from_buffers(one_array(rows.column(BUFFERS))), np.ones(len(rows), np.bool_)

    def check_buffers(self, schema: pa.Schema) -> None:
        """Refuse the buffers of a native query with other aggregates."""
        wanted = [buffer for result in self._buffered.values() for buffer in buffers_of(result)]
        check_buffers(wanted, schema.field(BUFFERS).type)

    def from_buffers(self, buffers: pa.StructArray) -> pa.Table:
        """Return state (`value_schema`) from the buffers of a native query with the same aggregates."""
        arrays, start, slices = buffers.flatten(), 0, dict[object, list[pa.Array]]()
        for shared, result in self._buffered.items():
            stop = start + len(buffers_of(result))
            slices[shared], start = arrays[start:stop], stop
        states = [state_from_buffers(result, slices[self._shared_by(result)]) for result in self._results]
        return pa.Table.from_arrays(list(chain.from_iterable(states)), self.value_schema.names).cast(self.value_schema)

    def presum(self, clock: Clock) -> Presum | None:
        made = [result.sql(*(quoted(column.name) for column in result.columns)) for result in self._results]
        known = [states for states in made if states is not None]
        if len(known) < len(made):
            return None
        return Presum(states=tuple(chain.from_iterable(known)), ordered=not self.commutative)

    def from_presum(self, rows: pa.Table) -> pa.Table:
        return rows.rename_columns(self.combined_schema.names).cast(self.combined_schema)

    @cached_property
    def _results(self) -> tuple[Result, ...]:
        return tuple(
            make(name, tuple(self._field(column) for column in columns), options)
            for name, (make, columns, options) in self._calls.items()
        )

    @property
    def _buffered(self) -> dict[object, Result]:
        """The results that Spark keeps buffers of their own for, in their order."""
        first: dict[object, Result] = {}
        for result in self._results:
            first.setdefault(self._shared_by(result), result)
        return first

    def _shared_by(self, result: Result) -> object:
        return shared_by(result, any(self.input_schema.field(column.name).nullable for column in result.columns))

    def _field(self, column: str) -> pa.Field:
        field = require_column(self.input_schema, column)
        return pa.field(field.name, field.type.value_type if types.is_dictionary(field.type) else field.type)


def expression_column(text: str) -> str:
    """Return the name of the column that holds an expression's values: the same in every start.

    It has neither dots nor backticks: Spark cannot hand such a column to Python.

    >>> expression_column("price * 1.5")
    '=price * 1%2E5'
    """
    return "=" + text.replace("%", "%25").replace(".", "%2E").replace("`", "%60")


def function_names() -> str:
    """Return all functions as people write them.

    >>> print(function_names())
    count[(x)], sum(x), ..., min_by(x, y), max_by(x, y), ...
    """
    return ", ".join(name + known.spelling for name, known in RESULTS.items())


def parse_call(name: str, text: str) -> tuple[type[Result], list[str], tuple[str, ...]]:
    """Return function, columns and options of a call in words."""
    call = _CALL.fullmatch(text) if isinstance(text, str) else None
    make = RESULTS.get(call[1].lower()) if call else None
    hint = f"one of {function_names()}"
    if call and make is not None:
        hint = f"write {call[1].lower()}{make.spelling}"
        words = [call[2]] if call[2] and call[2] != _ANY_ROW else []
        if make.most_columns + make.most_options > 1:
            words = [word.strip() for word in _COMMA.split(call[2] or "")]
        columns, options = [_column(word) for word in words[: make.most_columns]], words[make.most_columns :]
        enough = make.least_columns <= len(columns) and len(options) <= make.most_options
        if enough and all(words) and (call[2] != _ANY_ROW or make is Count):
            return make, columns, tuple(options)
    raise ArgumentError("unskew has no such aggregate", where=f"result {name!r}", got=text, hint=hint)


def _column(word: str) -> str:
    quoted = len(word) > 1 and word[0] == word[-1] == "`"
    return expression_column(word[1:-1].replace("``", "`")) if quoted else word


def _arrays(table: pa.Table, fields: Iterable[pa.Field]) -> list[pa.Array]:
    arrays = [one_array(table.column(field.name)) for field in fields]
    return [array.dictionary_decode() if types.is_dictionary(array.type) else array for array in arrays]
