"""Identical tables to the plain algorithms, ties included."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.planners import Memory, Problem, planner

RESOURCES = ("constant", "linear", "quadratic")
INSTANCES = 2000


def random_case(rng, slow):
    large = rng.random() < 0.03
    keys, channels = int(rng.integers(9, 14)) if large else int(rng.integers(1, 7)), int(rng.integers(2, 5))
    before = channels + int(rng.integers(-1, 2))
    tuples = rng.integers(0 if rng.random() < 0.3 else 1, int(rng.choice([3, 6, 40])), keys, endpoint=True)
    tuples[rng.integers(keys)] += 1
    resources = tuple(rng.choice(RESOURCES, 3))
    if set(resources) == {"constant"}:
        resources = ("linear", "constant", "linear")
    return slow.Case(
        tuples=tuples.tolist(),
        current=rng.integers(0, max(1, before), keys).tolist(),
        home=rng.integers(0, channels, keys).tolist(),
        channels=channels,
        resources=resources,
        alpha=float(rng.choice([1.05, 1.2, 2.0, 4.0])),
        sigma=float(rng.choice([0.1, 0.5, 1.0])),
        utility=str(rng.choice(["a", "apm", "aplm", "atm", "atlm"])),
        positive_only=bool(rng.random() < 0.3),
        max_moves=int(rng.choice([1, 5])),
        before=max(1, before),
    )


def parameters(case, name):
    memory, compute, network = case.resources
    shared = {
        "balance_ratio": case.alpha,
        "threshold_scale": case.sigma,
        "utility": case.utility,
        "memory": memory,
        "compute": compute,
        "network": network,
    }
    if name == "readj":
        shared |= {"require_positive_gain": case.positive_only, "max_moves_per_item": case.max_moves}
    return shared


@pytest.mark.parametrize("name", ["scan", "redist", "readj"])
def test_identical_to_the_plain_algorithm(name, slow):
    rng = np.random.default_rng({"scan": 1, "redist": 2, "readj": 3}[name])
    placed = 0
    for instance in range(INSTANCES):
        case = random_case(rng, slow)
        problem = Problem.of_keys(
            case.tuples,
            channels=case.channels,
            current=case.current,
            home=case.home,
            channels_before=case.before,
        )
        ours = planner(name, **parameters(case, name)).assign(problem, Memory()).owner.tolist()
        table = getattr(slow, name)(case)
        assert ours == slow.owners(case, table), f"instance {instance}: {case}"
        placed += len(table)
    assert placed > INSTANCES  # the instances are not all trivial
