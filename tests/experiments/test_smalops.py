from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from unskew_lab.experiments.claims import Claim
from unskew_lab.experiments.smalops import SmalopsPaper, run_trial, trials
from unskew_lab.experiments.smalops import trial as module
from unskew_lab.experiments.smalops.grid import BRINK, Trial
from unskew_lab.experiments.smalops.results import Results
from unskew_lab.experiments.smalops.trial import PERCENTILES, fullest_share, topic_of
from unskew_lab.simulation.queueing import simulate_queues

FIGURES = {"7", "7-long", "7-brink", "7-burst", "9", "10", "rule", "hot-keys"}
CLAIMS = {"f7a", "f7b", "f7c", "f8a", "f8b", "f9-fall", "f9-flat", "f10", "hk-keys", "hk-hot", "hk-tracked", "constant"}
SMALL = Trial(figure="7", partitions=4, key_count=2_000, run_seconds=30.0, service_us=2_000.0, utilisation=0.02)


def test_the_quick_grid_is_smaller_and_has_no_trial_twice() -> None:
    quick, full = trials(quick=True), trials(quick=False)
    assert len(set(quick)) == len(quick) and len(set(full)) == len(full)
    assert 2 * sum(t.run_seconds for t in quick) < sum(t.run_seconds for t in full)
    assert {t.figure for t in quick} == {t.figure for t in full} == FIGURES


def test_no_parameter_is_called_like_a_column_of_the_results() -> None:
    assert not {"took_seconds", "measures"} & set(Trial.__dataclass_fields__)


def test_what_arrives_does_not_depend_on_the_time_a_message_takes() -> None:
    fast, slow = (topic_of(replace(Trial(figure="7"), service_us=t)) for t in (10.0, 50.0))
    assert fast.messages_per_second == pytest.approx(slow.messages_per_second) == 0.85 * 12 / 50e-6
    assert slow.utilisation == 0.85
    assert fast.utilisation == pytest.approx(0.17)


def test_at_the_brink_kafka_s_fullest_consumer_is_nearly_busy_all_the_time() -> None:
    topic = topic_of(replace(SMALL, utilisation=0.0, service_us=50.0, run_seconds=5.0, seed=3))
    run = simulate_queues(topic, "kafka")
    busy = run.messages.max() * topic.message_seconds / topic.seconds
    assert busy == pytest.approx(BRINK, abs=0.02)
    assert fullest_share(4, 2_000, 3) > 1


def test_a_trial_measures_delays_by_percentile_with_and_without_holds() -> None:
    measures = run_trial(SMALL)
    for which in ("broker", "end_to_end"):
        for part in ("all", "warm", "last"):
            assert len(measures[f"{which} {part}"]) == len(PERCENTILES)
            assert np.all(np.diff(measures[f"{which} {part}"]) >= 0)
    assert measures["end_to_end all"][-1] >= measures["broker all"][-1]
    assert measures["moves"][0] > 0
    kafka = run_trial(replace(SMALL, contender="kafka"))
    results = Results([(SMALL, measures), (replace(SMALL, contender="kafka"), kafka)])
    (gain,) = results.gains(figure="7")
    assert gain == 1 - measures["broker all"][-2] / kafka["broker all"][-2]
    with pytest.raises(LookupError):
        results.value("moves", figure="9")


def test_hot_keys_are_counted_in_windows_and_over_the_run(monkeypatch) -> None:
    monkeypatch.setattr(module, "HOT_MESSAGES", 60_000)
    monkeypatch.setattr(module, "HOT_WINDOW", 20_000)
    one, three, drifting = (
        run_trial(Trial(figure="hot-keys", key_count=5_000, gateways=g, shift=s)) for g, s in ((1, 0), (3, 0), (1, 500))
    )
    assert one["messages"] == three["messages"] == [60_000.0]
    assert one["keys"] == three["keys"] and one["frequent"] == three["frequent"]
    assert len(one["tracked"]) == 3 and len(three["tracked"]) == 3
    assert max(one["tracked"]) <= one["hot"][0] < one["frequent"][0]
    assert three["hot"] == three["frequent"] == [sum(three["tracked"])], "each gateway has one window, the whole run"
    assert drifting["hot"][0] > 2 * one["hot"][0], "other keys are hot in each window"


@pytest.mark.spark
@pytest.mark.slow
def test_every_claim_of_the_specification_has_a_verdict(spark, tmp_path: Path) -> None:
    claims = SmalopsPaper().run(spark, tmp_path, quick=True)
    assert len({claim.id for claim in claims}) == len(claims)
    assert {claim.id for claim in claims} >= CLAIMS
    assert all(claim.reason for claim in claims if claim.verdict != "confirmed")
    verdicts = {claim.id: claim.verdict for claim in claims}
    assert all(verdicts[id] == "confirmed" for id in ("hk-keys", "hk-hot", "hk-tracked", "f8a"))
    assert verdicts["f7-absolute"] == "not comparable"
    assert [Claim(**each) for each in json.loads((tmp_path / "claims.json").read_text())] == claims
    assert json.loads((tmp_path / "claims.json").read_text())
    assert len(list(tmp_path.glob("*.png"))) == 4
    results = pq.read_table(tmp_path / "results.parquet")
    assert results.num_rows == len(trials(quick=True))
    assert len(set(results.column_names)) == len(results.column_names)
