from __future__ import annotations

import numpy as np
import pytest

from unskew.load.metrics import tolerated_deviation
from unskew.load.resources import CONSTANT, LINEAR, QUADRATIC, ResourceFunction
from unskew.planners import Memory, Problem, planner
from unskew.planners.gedik.threshold import threshold_after_counting, threshold_before_counting

THETA = tolerated_deviation(1.2, 10)


@pytest.fixture(scope="module")
def zipf():
    shares = 1 / np.arange(1, 1_000_001)
    return shares / shares.sum()


def before(*resources, theta=THETA, channels=10, keys=1e6, scale=0.1):
    return threshold_before_counting(resources, [theta] * len(resources), channels, keys, scale)


def after(shares, *resources, theta=THETA, channels=10, keys=1e6, scale=0.1):
    return threshold_after_counting(resources, [theta] * len(resources), shares, channels, keys, scale)


def test_defaults_of_the_paper():
    assert before(LINEAR) == pytest.approx(0.0017647059, abs=5e-11)
    assert before(QUADRATIC) == pytest.approx(4.200840e-5, abs=5e-12)
    assert before(LINEAR, QUADRATIC, LINEAR) == before(QUADRATIC)


def test_small_example():
    theta = tolerated_deviation(1.5, 4)
    assert theta == pytest.approx(1 / 3)
    small = {"theta": theta, "channels": 4, "keys": 100}
    assert before(LINEAR, **small) == pytest.approx(0.00833333, abs=5e-9)
    assert before(QUADRATIC, **small) == pytest.approx(0.00912871, abs=5e-9)
    assert after(np.array([0.5, 0.2]), QUADRATIC, **small) == pytest.approx(0.04923738, abs=5e-9)


def test_quadratic_step_on_the_default_zipf(zipf):
    frequent = zipf[zipf >= before(QUADRATIC)]
    assert len(frequent) == 1653
    assert QUADRATIC.estimated_total(frequent, 1e6) == pytest.approx(0.00793804, abs=5e-9)
    assert after(zipf, QUADRATIC) == pytest.approx(0.00374277, abs=5e-9)


def test_ruling_quadratic_mean_divides_the_predicted_total_by_the_channels(zipf):
    total = QUADRATIC.estimated_total(zipf[zipf >= before(QUADRATIC)], 1e6)
    printed = np.sqrt(0.1 * THETA * total)
    assert after(zipf, QUADRATIC) == pytest.approx(printed / np.sqrt(10))


def test_ruling_even_spread_minimises_the_quadratic_total(zipf):
    # the even spread is the conservative side: knowing the frequent keys can only raise the threshold
    assert after(zipf, QUADRATIC) > before(QUADRATIC)


def test_tables_coincide_whatever_the_resources(zipf):
    assert after(zipf, LINEAR, QUADRATIC, LINEAR) == after(zipf, LINEAR) == before(LINEAR)


def test_ruling_constant_resources_never_force_tracking():
    # the print takes the mean load of a constant resource for |D|; with few keys per channel any rule on it would track
    assert before(CONSTANT, keys=4, channels=4) == 1.0
    assert before(CONSTANT, LINEAR, keys=4, channels=4) == before(LINEAR, keys=4, channels=4)


def test_a_custom_function_is_solved_numerically(zipf):
    square = ResourceFunction("square", lambda f: f * f)
    assert before(square) == pytest.approx(before(QUADRATIC), rel=1e-9)
    assert after(zipf, square) == pytest.approx(after(zipf, QUADRATIC), rel=1e-9)


def test_a_custom_threshold_keeps_its_promise(zipf):
    sorting = ResourceFunction("sorting", lambda f: f * np.log2(1 + 1e6 * f))
    share = after(zipf, sorting)
    mean = sorting(zipf).sum() / 10
    assert sorting([share])[0] <= 0.1 * THETA * mean * 1.001


@pytest.mark.parametrize(("scale", "size"), [(1.0, 3), (0.1, 39), (0.008, 492)])
def test_table_size_on_the_default_zipf(zipf, scale, size):
    problem = Problem.of_keys(zipf, channels=10, current=np.zeros(len(zipf)), home=np.zeros(len(zipf)))
    assert len(planner("scan", balance_ratio=1.2, threshold_scale=scale).hot_keys(problem)) == size


def test_ruling_keys_are_admitted_within_the_count_error(zipf):
    problem = Problem.of_keys(zipf, channels=10, current=np.zeros(len(zipf)), home=np.zeros(len(zipf)))
    scan = planner("scan", balance_ratio=1.2, count_error=0.1 * before(LINEAR))
    assert len(scan.hot_keys(problem)) == 43


def test_unlisted_keys_count_in_shares_and_domain(zipf):
    listed = 2000
    whole = Problem.of_keys(zipf, channels=10, current=np.zeros(len(zipf)), home=np.zeros(len(zipf)))
    zeros = np.zeros(listed, np.int32)
    rest = np.full(10, zipf[listed:].sum() / 10)
    top = Problem(
        channels=10,
        channels_before=10,
        hashes=np.arange(listed),
        tuples=zipf[:listed],
        cost=zipf[:listed],
        state=zipf[:listed],
        current=zeros,
        home=zeros,
        background_tuples=rest,
        background_cost=rest,
        background_state=rest,
        background_cost_before=rest,
        background_state_moved=0.0,
        distinct_keys=1e6,
    )
    for compute in ("linear", "quadratic"):
        scan = planner("scan", balance_ratio=1.2, compute=compute, network="constant", memory="constant")
        assert scan.hot_keys(top).tolist() == scan.hot_keys(whole).tolist()
    assert planner("scan").assign(top, Memory()).owner.shape == (listed,)
