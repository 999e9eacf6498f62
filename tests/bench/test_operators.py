from __future__ import annotations

import pytest

from unskew.bench import benchmarks, operators
from unskew.bench.operators import OURS, SUBJECTS, batch_rows, inside


def test_keys_are_as_skewed_as_they_are_called() -> None:
    uniform, skewed = (batch_rows(0, 20_000, exponent) for exponent in operators.SHAPES.values())
    counts = [rows["key"].value_counts().field("counts").to_numpy() for rows in (uniform, skewed)]
    assert counts[0].max() < 25, "five rows a key"
    assert 0.15 < counts[1].max() / 20_000 < 0.25, "1 / zeta(1.2) up to 4,000 keys is 0.21"
    assert len(counts[0]) > 3900


def test_every_subject_has_its_own_name() -> None:
    assert len({subject.name for subject in SUBJECTS}) == len(SUBJECTS)


QUICK = {"sliding windows (2): count and sum"}


@pytest.mark.parametrize(
    "subject",
    [pytest.param(s, id=s.name, marks=() if s.name in QUICK else pytest.mark.slow) for s in SUBJECTS],
)
def test_every_subject_runs(subject: operators.Subject) -> None:
    rows = inside(subject, 500, repeats=1)
    assert len(rows) == 2 * len(operators.SHAPES)
    assert {row.contender for row in rows} == {OURS}
    assert all(row.value > 0 and row.unit == "M rows/s" for row in rows)
    assert [row.target for row in rows] == [subject.target, None] * len(operators.SHAPES)


def test_quickly_only_the_inside_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(operators, "inside", lambda subject, rows, repeats: asked.append(rows) or [])
    monkeypatch.setattr(operators, "whole", lambda subjects, rows: [len(subjects)])
    assert benchmarks["operators"]().run(quick=True) == []
    assert benchmarks["operators"]().run(quick=False) == [len(SUBJECTS)]
    assert asked == [100_000] * len(SUBJECTS) + [500_000] * len(SUBJECTS)
