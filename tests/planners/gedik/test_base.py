"""What the three planners share: options, edges, and how they fit the planner contract."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.load.metrics import overload
from unskew.load.resources import ResourceFunction
from unskew.load.statistics import Statistics
from unskew.planners import Memory, Problem, planner
from unskew.routing.table import RoutingTable

NAMES = ("scan", "redist", "readj")


def zipf_problem(keys=5000, channels=8, seed=0, **parameters):
    rng = np.random.default_rng(seed)
    tuples = 1000 / np.arange(1, keys + 1)
    home = rng.integers(0, channels, keys)
    return Problem.of_keys(tuples, channels=channels, current=home, home=home, **parameters)


@pytest.mark.parametrize("name", NAMES)
def test_balances_hot_keys(name):
    problem = zipf_problem()
    owner = planner(name).assign(problem, Memory()).owner
    assert overload(problem.loads(owner)) < overload(problem.loads(problem.home))


@pytest.mark.parametrize("name", NAMES)
def test_only_hot_keys_leave_home(name):
    problem = zipf_problem()
    gedik = planner(name)
    owner = gedik.assign(problem, Memory()).owner
    away = np.flatnonzero(owner != problem.home)
    assert set(away) <= set(gedik.hot_keys(problem))
    assert len(away) < 200


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "problem",
    [
        Problem.of_keys([], channels=3, current=[], home=[]),
        Problem.of_keys([0, 0], channels=2, current=[0, 1], home=[0, 0]),
        Problem.of_keys([3, 1], channels=1, current=[0, 0], home=[0, 0]),
    ],
    ids=["no keys", "no load", "one channel"],
)
def test_nothing_to_balance_sends_every_key_home(name, problem):
    assignment = planner(name).assign(problem, Memory())
    assert assignment.owner.tolist() == problem.home.tolist()
    assert assignment.notes == ("no_hot_keys",)


@pytest.mark.parametrize("name", NAMES)
def test_constant_resources_alone_leave_nothing_to_balance(name):
    problem = zipf_problem(keys=20)
    constant = planner(name, memory="constant", compute="constant", network="constant")
    assert constant.assign(problem, Memory()).owner.tolist() == problem.home.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_one_key_and_equal_keys(name):
    assert planner(name).assign(Problem.of_keys([7], channels=3, current=[2], home=[0]), Memory()).owner.tolist() == [2]
    equal = Problem.of_keys([5] * 6, channels=3, current=[0] * 6, home=[0] * 6)
    assert np.bincount(planner(name).assign(equal, Memory()).owner).tolist() == [2, 2, 2]


@given(
    data=st.data(),
    name=st.sampled_from(NAMES),
    channels=st.integers(1, 6),
    before=st.integers(1, 7),
    utility=st.sampled_from(["a", "apm", "aplm", "atm", "atlm"]),
)
@settings(max_examples=150, deadline=None)
def test_every_key_has_one_owner_and_the_answer_is_the_same_twice(data, name, channels, before, utility):
    keys = data.draw(st.integers(0, 25))
    tuples = data.draw(st.lists(st.integers(0, 1000), min_size=keys, max_size=keys))
    current = data.draw(st.lists(st.integers(0, before - 1), min_size=keys, max_size=keys))
    home = data.draw(st.lists(st.integers(0, channels - 1), min_size=keys, max_size=keys))
    problem = Problem.of_keys(tuples, channels=channels, current=current, home=home, channels_before=before)
    first, again = (planner(name, utility=utility).assign(problem, Memory()).owner for _ in range(2))
    assert first.tolist() == again.tolist()
    assert first.dtype == np.int32
    assert all(0 <= owner < channels for owner in first)
    assert problem.loads(first).sum() == pytest.approx(sum(tuples))
    # only shares count, not the unit
    doubled = Problem.of_keys(np.multiply(tuples, 2), channels=channels, current=current, home=home)
    assert planner(name, utility=utility).assign(doubled, Memory()).owner.tolist() == first.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_untracked_load_counts_if_asked(name):
    # channel 0 carries a crowd of light keys: with them in view, the two hot keys go elsewhere
    tuples, home = [300, 290] + [1] * 400, [0, 0] + [0] * 400
    problem = Problem.of_keys(tuples, channels=3, current=home, home=home)
    options = {"utility": "a", "threshold_scale": 1.0}
    blind, aware = (
        planner(name, include_untracked_load=aware, **options).assign(problem, Memory()).owner
        for aware in (False, True)
    )
    assert overload(problem.loads(aware)) < overload(problem.loads(blind))
    assert sorted(aware[:2]) == [1, 2]


@pytest.mark.parametrize("compute", ["linear", "quadratic"])
def test_untracked_load_is_estimated_for_keys_that_are_not_listed(compute):
    rng = np.random.default_rng(3)
    listed, others, channels = 40, 4000, 4
    shares = np.concatenate([rng.random(listed) * 50, np.full(others, 0.5)])
    home = np.concatenate([rng.integers(0, channels, listed), np.arange(others) % channels]).astype(np.int32)
    whole = Problem.of_keys(shares, channels=channels, current=home, home=home)
    rest = np.bincount(home[listed:], shares[listed:], channels)
    top = Problem(
        channels=channels,
        channels_before=channels,
        hashes=np.arange(listed),
        tuples=shares[:listed],
        cost=shares[:listed],
        state=shares[:listed],
        current=home[:listed],
        home=home[:listed],
        background_tuples=rest,
        background_cost=rest,
        background_state=rest,
        background_cost_before=rest,
        background_state_moved=0.0,
        distinct_keys=float(listed + others),
    )
    scan = planner("scan", compute=compute, include_untracked_load=True)
    base_loads = [scan.items(p, scan.hot_keys(p)).base_load for p in (whole, top)]
    np.testing.assert_allclose(base_loads[0], base_loads[1], rtol=1e-9)


def test_tolerances_of_single_resources():
    scan = planner("scan", tolerance=0.2, compute_tolerance=0.05, compute="quadratic")
    assert scan.deviations(10) == pytest.approx((0.2, 0.05, 0.2))
    problem = zipf_problem()
    items = scan.items(problem, scan.hot_keys(problem))
    assert items.deviation == pytest.approx([0.2, 0.05])
    assert items.multiplicity.tolist() == [2, 1]


def test_tolerance_is_the_deviation_and_a_ratio_converts_to_it():
    assert planner("scan", tolerance=3 / 17).deviations(10) == pytest.approx(
        planner("scan", balance_ratio=1.2).deviations(10)
    )
    assert planner("scan", tolerance=50).deviations(10) == (9.0, 9.0, 9.0)  # no finite ratio: everything is tolerated
    assert planner("scan", tolerance=50).assign(zipf_problem(channels=10), Memory()).owner.max() < 10


def test_a_custom_resource_function_is_balanced():
    sorting = ResourceFunction("sorting", lambda f: f * np.log2(1 + 1e6 * f))
    problem = zipf_problem()
    owner = planner("readj", compute=sorting).assign(problem, Memory()).owner
    loads = sorting(problem.tuples / problem.tuples.sum())
    before, after = (overload(np.bincount(o, loads, 8)) for o in (problem.home, owner))
    assert after < before


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"tolerance": 0}, "tolerance must be above 0"),
        ({"network_tolerance": -1}, "network_tolerance must be above 0"),
        ({"balance_ratio": float("nan")}, "balance_ratio must be above 1"),
        ({"threshold_scale": 0}, "threshold_scale"),
        ({"threshold_scale": 1.5}, "threshold_scale"),
        ({"count_error": -0.1}, "count_error"),
        ({"utility": "amp"}, "a, apm, aplm, atm, atlm"),
        ({"memory": "cubic"}, "resource function"),
        ({"max_moves_per_item": 0}, "one move"),
    ],
)
def test_parameters_are_checked_when_the_planner_is_made(parameters, message):
    with pytest.raises(ArgumentError, match=message):
        planner("readj", **parameters)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("channels", [3, 4, 6])
def test_plans_on_tables(name, channels):
    rng = np.random.default_rng(1)
    hashes = rng.integers(-(2**62), 2**62, 3000)
    statistics = Statistics.of_keys(hashes, 1000 / np.arange(1, 3001))
    gedik = planner(name)
    plan = gedik.plan(statistics, RoutingTable.initial(4, slots=256), channels=channels)
    assert plan.table.channels == channels
    assert plan.report.table_size == len(plan.table.explicit_hashes)
    assert np.all(plan.table.home(plan.table.explicit_hashes) != plan.table.explicit_channels)
    resized = RoutingTable.initial(4, slots=256).resize(channels)
    per_channel = [np.bincount(t.lookup(statistics.hashes), statistics.cost, channels) for t in (plan.table, resized)]
    assert overload(per_channel[0]) < overload(per_channel[1])


def test_report_reads_a_ratio_as_a_tolerance():
    problem = Problem.of_keys([50, 40, 10], channels=2, current=[0, 1, 1], home=[0, 1, 1])
    strict, lax = planner("scan", balance_ratio=1.01), planner("scan", balance_ratio=4.0)
    assert strict.describe(problem, strict.assign(problem, Memory())).unsplittable == ()
    heavy = Problem.of_keys([70, 20, 10], channels=2, current=[0, 1, 1], home=[0, 1, 1])
    assert strict.describe(heavy, strict.assign(heavy, Memory())).unsplittable == (0,)
    assert lax.describe(heavy, lax.assign(heavy, Memory())).unsplittable == ()


def test_an_operators_own_functions_take_the_place_of_the_defaults() -> None:
    told = planner("scan").knowing(memory="constant", compute="quadratic")
    assert [resource.name for resource in told.resources()] == ["constant", "quadratic", "linear"]
    chosen = planner("scan", compute="linear")
    assert chosen.knowing(memory="constant", compute="quadratic") is chosen, "what the user has set stays"
    assert planner("mixed").knowing(memory="constant", compute="quadratic") == planner("mixed")
