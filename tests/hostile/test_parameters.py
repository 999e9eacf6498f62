"""Parameters of the wrong type or out of range: an error of ours that is also a builtin, and never a hang."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew import operators
from unskew.errors import ArgumentError, RoutingError, UnskewError
from unskew.hashing import hash_keys
from unskew.hashing.murmur2 import kafka_partitions
from unskew.load import ChannelUse, Statistics
from unskew.operators.durations import microseconds
from unskew.planners import PLANNERS, planner
from unskew.routing import Ring, RoutingTable
from unskew.sketches import LossyCounting, SlidingLossyCounting, SpaceSaving
from unskew.splitters import SPLITTERS, candidates, splitter
from unskew.testing import disturbed, run
from unskew.workloads import WORKLOADS, describe, workload

BUILTINS = (ValueError, TypeError, KeyError, RuntimeError, ArithmeticError)
HASHES, ROWS = np.array([1, 2]), pa.table({"user": ["ada", "bob"], "n": [1, 2]})
COUNT = operators.Aggregate(n="count")

ODD: list[Any] = [None, True, "", "x", "1", "\0", b"x", math.nan, math.inf, -math.inf, 2.5, -1, 0, 1j, Decimal("NaN")]
ODD += [
    1 << 70,
    -(1 << 70),
    10**400,
    [],
    [1],
    [None],
    {},
    {1: 2},
    (),
    object(),
    len,
    float,
    np.int64(-3),
    [[1], [1, 2]],
]
odd = st.one_of(st.sampled_from(ODD), st.integers(-3, 3), st.text(max_size=3), st.binary(max_size=2))

Maker = tuple[Callable[..., Any], dict[str, Any]]  # a function, and arguments that fit

MAKERS: dict[str, Maker] = {
    "lossy counting": (LossyCounting, {"error": 0.1}),
    "space saving": (SpaceSaving, {"capacity": 5}),
    "sliding": (SlidingLossyCounting, {"window": 100, "error": 0.1, "counters": 3}),
    "a sketch's query": (LossyCounting(0.1).query, {"threshold": 0.5}),
    "a sketch's rows": (SpaceSaving(5).update_counts, {"hashes": HASHES, "counts": HASHES}),
    "a sketch's top": (SpaceSaving(5).top, {"k": 2}),
    "ring": (Ring, {"channels": 2, "replicas": 3, "seed": 0}),
    "a new table": (RoutingTable.initial, {"channels": 2, "slots": 4}),
    "table": (
        RoutingTable,
        {"channels": 2, "slots": [0, 1], "explicit_hashes": [7], "explicit_channels": [1], "split": {}, "version": 0}
        | {"names": {}},
    ),
    "look-up": (RoutingTable.initial(2, 4).lookup, {"hashes": [1]}),
    "home": (RoutingTable.initial(2, 4).home, {"hashes": [1]}),
    "slots": (RoutingTable.initial(2, 4).with_slots, {"owners": [0, 1, 0, 1]}),
    "entries": (RoutingTable.initial(2, 4).with_explicit, {"hashes": [1], "channels": [0]}),
    "split": (RoutingTable.initial(2, 4).with_split, {"split": {7: (0, 1)}}),
    "resize": (RoutingTable.initial(2, 4).resize, {"channels": 3}),
    "moves": (RoutingTable.initial(2, 4).moves_to, {"other": RoutingTable.initial(2, 4)}),
    "candidates": (candidates, {"hashes": HASHES, "workers": 3, "choices": 2, "seed": 0, "distinct": False}),
    "statistics": (
        Statistics,
        {name: [1.0, 2.0] for name in ("tuples", "cost", "state")} | {"hashes": HASHES, "keys": None, "slot_cost": [0]},
    ),
    "statistics of keys": (Statistics.of_keys, {"hashes": HASHES, "cost": [1.0, 2.0], "state": None, "tuples": None}),
    "use": (ChannelUse, {"window_seconds": 1.0, "idle_seconds": None, "move_seconds": 0.0, "lag_tuples": None}),
    "describe": (describe, {"workload": workload("zipf", keys=9), "channels": (2,), "n": 9, "interval": 0, "top": 2}),
    "hash": (hash_keys, {"rows": ROWS, "key": "user"}),
    "Kafka's partitions": (kafka_partitions, {"column": ROWS["user"], "partitions": 2}),
    "duration": (microseconds, {"duration": "1 second"}),
    "run": (run, {"operator": COUNT, "steps": [ROWS], "key": "user", "channels": 1, "slots": 8, "seed": 0, "parts": 1}),
    "watermark": (run, {"operator": COUNT, "steps": [ROWS], "key": "user", "watermark": None}),
    "disturbed": (disturbed, {"batches": [ROWS], "key": "user", "channels": 2, "slots": 8, "seed": 0}),
    "aggregate": (operators.Aggregate, {"n": "count"}),
    "history": (operators.History, {"rows": 2, "most": "max(n)"}),
    "window": (
        operators.WindowAggregate,
        {"size": "2 seconds", "slide": None, "offset": "0 seconds", "on": None, "aggregates": None, "n": "count"},
    ),
    "session": (operators.SessionAggregate, {"gap": "1 second", "on": None, "aggregates": None, "n": "count"}),
    "heavy hitters": (operators.HeavyHitters, {"item": "n", "capacity": 5, "k": None}),
    "heaviest keys": (operators.HeaviestKeys, {"k": 2, "capacity": None, "buckets": 2}),
    "histogram": (operators.Histogram, {"column": "n", "bins": 5}),
    "tree": (operators.DecisionTree, {"features": ["n"], "classes": ["a", "b"], "bins": 5, "max_depth": 3}),
    "bayes": (operators.NaiveBayesClassifier, {"words": "w", "label": "l", "classes": ["a"], "smoothing": 1.0}),
    "self-join": (
        operators.SelfJoin,
        {"time": "at", "within": "1 second", "columns": None, "sides": None, "pair_seconds": 0.0},
    ),
    "top k": (operators.TopK, {"k": 2, "by": "n", "key": ["user"]}),
}
NO_CHOICE = {("Kafka's partitions", "column")}  # typed objects of Arrow's, which nobody spells by hand


def registered() -> Iterator[tuple[str, Maker]]:
    """Yield every planner, splitter and workload with the parameters it takes."""
    for family, registry in ((planner, PLANNERS), (splitter, SPLITTERS), (workload, WORKLOADS)):
        for name in registry:
            known = dict.fromkeys(inspect.signature(registry[name]).parameters)
            yield f"{registry.family} {name}", (lambda f=family, n=name, **given: f(n, **given), known)


NAMED = dict(registered())


def refused(make: Callable[..., Any], given: dict[str, Any]) -> bool:
    """Tell whether a call is refused, by an error of ours."""
    try:
        make(**given)
    except UnskewError as error:
        assert isinstance(error, BUILTINS)
        assert error.what
        return True
    return False


@pytest.mark.parametrize("name", MAKERS)
def test_each_odd_value_for_each_parameter(name: str) -> None:
    make, good = MAKERS[name]
    for parameter in good:
        for value in ODD if (name, parameter) not in NO_CHOICE else ():
            refused(make, good | {parameter: value})
    assert not refused(make, good)


@pytest.mark.parametrize("name", NAMED)
def test_each_odd_value_for_planners_splitters_and_workloads(name: str) -> None:
    make, parameters = NAMED[name]
    for parameter in parameters:
        wrong = [value for value in ODD if refused(make, {parameter: value})]
        assert wrong, f"{parameter} may be anything"


@given(st.sampled_from(sorted(MAKERS)), st.data())
def test_several_odd_values_at_once(name: str, data: st.DataObject) -> None:
    make, good = MAKERS[name]
    free = [parameter for parameter in good if (name, parameter) not in NO_CHOICE]
    refused(make, good | data.draw(st.dictionaries(st.sampled_from(free), odd, max_size=3)) if free else good)


@given(st.sampled_from(sorted(PLANNERS)), st.data())
def test_a_planner_that_can_be_made_can_plan(name: str, data: st.DataObject) -> None:
    numbers = st.one_of(odd, st.floats(), st.integers(-5, 5), st.floats(0, 3))
    parameters = data.draw(st.dictionaries(st.sampled_from(sorted(NAMED[f"planner {name}"][1])), numbers, max_size=3))
    try:
        made = planner(name, **parameters)
    except UnskewError:
        return
    cost = data.draw(st.lists(st.floats(0, 1e300), max_size=6))
    table = RoutingTable.initial(data.draw(st.integers(1, 4)), slots=8)
    new = made.plan(Statistics.of_keys(range(len(cost)), cost), table).table
    assert new.channels == table.channels and ((new.slots >= 0) & (new.slots < new.channels)).all()


@pytest.mark.parametrize("make", [planner, splitter, workload])
@pytest.mark.parametrize("name", [None, 5, [], {}, "", b"zipf", ("zipf",)])
def test_names_that_are_no_names(make: Callable[..., Any], name: Any) -> None:
    with pytest.raises(ArgumentError, match="of that name"):
        make(name)


def test_very_many_counters_are_refused_at_once() -> None:
    with pytest.raises(ArgumentError, match="at most 1024"):
        SlidingLossyCounting(100, 0.1, counters=1 << 70)


def test_the_parameter_and_what_it_takes_are_named() -> None:
    with pytest.raises(ArgumentError, match=r"^tolerance must be a number, got '8 %'\.$"):
        planner("mixed", tolerance="8 %")
    with pytest.raises(ArgumentError, match=r"^table_cap must be a whole number or None, got 2\.5\.$"):
        planner("mixed", table_cap=2.5)


@pytest.mark.parametrize("owners", [[0.5, 1, 0, 1], ["0", "1", "0", "1"], [[0, 1], [0, 1]], [2**40, 0, 0, 0], 3])
def test_owners_that_are_not_whole_numbers_are_not_rounded(owners: Any) -> None:
    with pytest.raises(RoutingError, match="slots must"):
        RoutingTable.initial(2, 4).with_slots(owners)
