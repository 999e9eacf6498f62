import numpy as np
import pytest

from unskew.errors import ArgumentError
from unskew.workloads import workload
from unskew.workloads.eighty_twenty import SelfSimilar, TwoClass


def test_flux_hottest_group_has_26_percent() -> None:
    assert SelfSimilar().probabilities().max() == pytest.approx(0.26, abs=0.005)


@pytest.mark.parametrize("share", [0.6, 0.8, 0.9])
def test_80_20_within_every_part(share: float) -> None:
    law = np.sort(SelfSimilar(key_count=10_000, share=share).probabilities())[::-1]
    part = 10_000.0
    for depth in (1, 2, 3):
        part *= 1 - share
        assert law[: round(part)].sum() == pytest.approx(share**depth, rel=0.02)


def test_draws_are_the_recipes() -> None:
    numbers = np.random.Generator(np.random.PCG64(np.random.SeedSequence((2, 5), spawn_key=(0,)))).random(3000)
    ranks = np.floor(16384 * numbers ** (np.log(0.2) / np.log(0.8))).astype(int)
    drawn = SelfSimilar(seed=2).keys(5, 3000)
    names = dict(zip(ranks.tolist(), drawn.tolist(), strict=True))
    assert [names[rank] for rank in ranks.tolist()] == drawn.tolist()
    assert len(set(names.values())) == len(names)


def test_two_classes() -> None:
    groups = TwoClass(key_count=1000, seed=3)
    hot = np.argsort(-groups.probabilities())[:200]
    drawn = groups.keys(0, 200_000)
    assert np.isin(drawn, hot).mean() == pytest.approx(0.8, abs=0.005)
    assert np.unique(drawn).size == 1000


@pytest.mark.parametrize("name", ["self-similar", "two-class"])
@pytest.mark.parametrize("wrong", [{"share": 1.0}, {"share": 0.4}, {"keys": 0}])
def test_wrong_parameters_are_refused(name: str, wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        workload(name, **wrong)
