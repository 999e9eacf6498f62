"""The hand-worked example of the paper's Fig. 1 and the tables that each algorithm makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.load.metrics import tolerated_deviation
from unskew.planners import Memory, Problem, planner
from unskew.planners.gedik import Readj
from unskew.planners.gedik.items import UTILITIES, combine_gaps, unit_of_gaps, utility, weigh_gap
from unskew.planners.gedik.placing import _kernel_redist
from unskew.planners.gedik.readj import _kernel_readj

KEYS = "LRUVWXYZ"
TUPLES = {"X": 5, "Z": 3, "V": 2, "R": 1, "U": 4, "Y": 3, "W": 3, "L": 1}
LCL = {"memory": "linear", "compute": "constant", "network": "linear"}
LLL = {"memory": "linear", "compute": "linear", "network": "linear"}
LQL = {"memory": "linear", "compute": "quadratic", "network": "linear"}


def owners(table):
    """Read "XZ/UY/WVRL": the keys of channel 0, 1, 2."""
    return [next(c for c, keys in enumerate(table.split("/")) if key in keys) for key in KEYS]


def growth():
    current = owners("XZV/UYWLR")
    return Problem.of_keys([TUPLES[k] for k in KEYS], channels=3, current=current, home=current, channels_before=2)


def shrinking():
    current = owners("XRL/UY/WZV")
    ring = {"W": 0, "Z": 1, "V": 0}
    home = [ring.get(key, own) for key, own in zip(KEYS, current, strict=True)]
    return Problem.of_keys([TUPLES[k] for k in KEYS], channels=2, current=current, home=home, channels_before=3)


def answer(name, problem, resources):
    owner = planner(name, balance_ratio=1.2, **resources).assign(problem, Memory()).owner
    return owner.tolist(), float(problem.state[owner != problem.current].sum())


@pytest.mark.parametrize(
    ("name", "resources", "table", "moved"),
    [
        ("scan", LCL, "XV/UZR/WYL", 10),
        ("scan", LLL, "XV/UZR/WYL", 10),
        ("scan", LQL, "XV/UZR/WYL", 10),
        ("redist", LCL, "XZ/UYL/WVR", 6),
        ("redist", LLL, "XZ/UYL/WVR", 6),
        ("redist", LQL, "XV/UZR/WYL", 10),
        ("readj", LCL, "XZ/WYL/UVR", 7),
        ("readj", LLL, "XZ/WYL/UVR", 7),
        ("readj", LQL, "XV/WYLR/UZ", 7),
    ],
)
def test_growing_from_two_to_three(name, resources, table, moved):
    assert answer(name, growth(), resources) == (owners(table), moved)


@pytest.mark.parametrize(
    ("name", "table", "moved"), [("scan", "XYVL/UWZR", 12), ("redist", "XWZ/UYVLR", 10), ("readj", "XWVR/UYZL", 9)]
)
def test_shrinking_from_three_to_two(name, table, moved):
    assert answer(name, shrinking(), LCL) == (owners(table), moved)


def items_of(problem, resources):
    scan = planner("scan", balance_ratio=1.2, **resources)
    hot = scan.hot_keys(problem)
    return "".join(KEYS[i] for i in hot), scan.items(problem, hot)


def test_item_order_is_by_share_then_by_key():
    assert items_of(growth(), LCL)[0] == "XUWYZVLR"


@pytest.mark.parametrize(
    ("problem", "resources", "placed"),
    [(growth(), LCL, "XUWVLYZR"), (growth(), LQL, "XUWYZVLR"), (shrinking(), LCL, "XULYWZVR")],
)
def test_order_in_which_redist_places(problem, resources, placed):
    names, items = items_of(problem, resources)
    assert "".join(names[i] for i in _kernel_redist(items, UTILITIES.index("apm"))[1]) == placed


@pytest.mark.parametrize(
    ("problem", "resources", "steps"), [(growth(), LCL, 5), (growth(), LQL, 6), (shrinking(), LCL, 1)]
)
def test_steps_of_readj(problem, resources, steps):
    _, items = items_of(problem, resources)
    start = np.where(items.current < items.channels, items.current, items.home).astype(np.int32)
    assert _kernel_readj(items, start, UTILITIES.index("apm"), False, 5) == steps


def test_utilities_of_the_balanced_setup():
    """The table "both" of Fig. 1 with three channels, judged as LQL with a ratio of 1.2."""
    network, compute = np.array([7, 7, 8]) / 22, np.array([27, 25, 22]) / 484
    theta = tolerated_deviation(1.2, 3)
    rho_n, rho_c = (np.ptp(loads) * unit_of_gaps(theta, loads.sum(), 3) for loads in (network, compute))
    assert (round(rho_n, 6), round(rho_c, 6)) == (1.090909, 1.621622)
    rho = combine_gaps(weigh_gap(rho_n, 2) * weigh_gap(rho_c, 1), 3)
    assert rho == pytest.approx(1.245018, abs=5e-7)
    gamma = 10 / (22 / 3)
    expected = {"a": 1.245018, "apm": 2.608654, "aplm": 2.105219, "atm": 2.942769, "atlm": 2.315984}
    for kind, name in enumerate(UTILITIES):
        assert utility(kind, rho, gamma) == pytest.approx(expected[name], abs=1e-6)


def test_lcl_and_lll_give_identical_tables():
    rng = np.random.default_rng(11)
    for _ in range(200):
        keys, channels = int(rng.integers(2, 30)), int(rng.integers(2, 6))
        problem = Problem.of_keys(
            rng.integers(1, 20, keys),
            channels=channels,
            current=rng.integers(0, channels, keys),
            home=rng.integers(0, channels, keys),
        )
        for name in ("scan", "redist", "readj"):
            lcl, lll = (planner(name, **resources).assign(problem, Memory()).owner for resources in (LCL, LLL))
            assert lcl.tolist() == lll.tolist()


def test_the_default_resources_are_those_of_the_paper():
    assert (Readj().memory, Readj().compute, Readj().network) == ("linear", "constant", "linear")
