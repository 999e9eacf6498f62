import numpy as np
import pytest

from unskew.errors import ArgumentError
from unskew.workloads import workload
from unskew.workloads.stand_in import Cashtags, StandIn, WikipediaPinned


@pytest.mark.parametrize(
    ("name", "messages", "keys", "top_share"),
    [
        ("wp", 22e6, 2.9e6, 0.0932),
        ("tw", 1.2e9, 31e6, 0.0267),
        ("ct", 690e3, 2.9e3, 0.0329),
        ("lj", 69e6, 4.9e6, 0.0029),
        ("sl1", 905e3, 77e3, 0.0328),
        ("sl2", 948e3, 82e3, 0.0311),
    ],
)
def test_named_data_sets_have_the_published_figures(name: str, messages: float, keys: float, top_share: float) -> None:
    named = workload(name)
    assert isinstance(named, StandIn)
    assert (named.messages, named.key_count, named.top_share) == (messages, keys, top_share)
    assert named.law.top_share == pytest.approx(top_share, rel=1e-6)
    met = np.bincount(np.minimum(named.keys(0, 400_000), 1))[0] / 400_000
    assert met == pytest.approx(top_share, abs=5 * np.sqrt(top_share / 400_000))


def test_a_whole_run_meets_the_published_number_of_keys() -> None:
    assert np.unique(workload("sl1").keys(0, 905_000)).size == pytest.approx(77_000, rel=0.005)


def test_cashtags_change_places_every_week() -> None:
    cashtags = Cashtags()
    laws = [cashtags.probabilities(day) for day in range(22)]
    assert all((laws[day] == laws[0]).all() for day in range(7))
    weeks = [laws[0], laws[7], laws[14], laws[21]]
    assert len({tuple(np.argsort(-law, kind="stable")[:50]) for law in weeks}) == 4
    for law in weeks:
        assert sorted(law[:50]) == sorted(laws[0][:50])
        assert (law[50:] == laws[0][50:]).all()
    met = np.bincount(cashtags.keys(14, 200_000), minlength=2900) / 200_000
    assert np.abs(met - laws[14]).max() < 0.003


def test_pinned_wikipedia_has_the_papers_counters() -> None:
    pinned = WikipediaPinned()
    law = pinned.probabilities()
    assert law[0] == 0.0932
    assert law.sum() == pytest.approx(1)
    assert -np.expm1(22_000_000 * np.log1p(-law)).sum() == pytest.approx(2.90e6, rel=0.005)
    met = np.bincount(pinned.keys(0, 500_000), minlength=3)[:3] / 500_000
    assert met == pytest.approx(law[:3], abs=0.002)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("ct", {"week_intervals": 0}),
        ("ct", {"reshuffled": 5000}),
        ("wp-pinned", {"top_share": 1}),
        ("wp-pinned", {"keys": 1}),
        ("wp-pinned", {"exponent": -1}),
    ],
)
def test_wrong_parameters_are_refused(name: str, wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        workload(name, **wrong)
