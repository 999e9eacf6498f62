import numpy as np

from unskew.load.metrics import overload, tolerated_deviation
from unskew.planners import Memory, Problem, planner
from unskew.sketches import LossyCounting
from unskew_lab.bench.plain import plain_best_fit, plain_lossy_counting, plain_min_mig, plain_scan
from unskew_lab.bench.planners import drifted
from unskew_lab.bench.zipf import zipf_hashes


def test_the_measured_problem_needs_a_plan() -> None:
    problem = drifted(10_000)
    assert overload(problem.loads_before()) > 0.2


def test_plain_python_does_the_same_work_as_the_planner() -> None:
    for seed in range(5):
        problem = drifted(2_000, channels=7, seed=seed)
        assert plain_min_mig(problem, 0.08).tolist() == planner("minmig").assign(problem, Memory()).owner.tolist()


def test_plain_scan_does_the_same_work_as_the_planner() -> None:
    rng = np.random.default_rng(0)
    share = np.sort(rng.zipf(1.5, 40))[::-1].astype(float)
    current = rng.integers(0, 4, 40)
    problem = Problem.of_keys(share, channels=5, current=current, home=current)
    ours = planner("scan", balance_ratio=1.2, threshold_scale=1e-6).assign(problem, Memory()).owner
    plain = plain_scan((share / share.sum()).tolist(), current.tolist(), 5, tolerated_deviation(1.2, 5))
    assert ours.tolist() == plain


def test_plain_best_fit_does_the_same_work_as_the_planner() -> None:
    chosen = planner("smalops", hot_by="listed", first_place="stay")
    rng = np.random.default_rng(0)
    for _ in range(20):
        load, current = rng.zipf(1.5, 60).astype(float), rng.integers(0, 5, 60)
        problem = Problem.of_keys(load, channels=5, current=current, home=current)
        assert plain_best_fit(load.tolist(), current.tolist(), 5) == chosen.assign(problem, Memory()).owner.tolist()


def test_plain_lossy_counting_does_the_same_work_as_the_sketch() -> None:
    stream = zipf_hashes(20_000, keys=5_000)
    sketch = LossyCounting(1e-2)
    sketch.update(stream)
    plain = plain_lossy_counting(stream.tolist(), 1e-2)
    found = sketch.entries().to_pydict()
    ours = zip(found["hash"], zip(found["count"], found["max_undercount"], strict=True), strict=True)
    assert dict(ours) == plain
