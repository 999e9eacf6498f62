from __future__ import annotations

from unskew_lab.bench import scale
from unskew_lab.simulation.study import Point


def test_rows_are_medians_of_the_runs_with_their_samples():
    points = tuple(Point("mixed", 10, 10**6, value, 0.2, 0.01, 5.0, 0.002) for value in (0.05, 0.09, 0.07))
    rows = {row.name: row for row in scale._rows(points)}
    overload = rows["10 channels, 1,000,000 keys: overload"]
    assert (overload.value, overload.target, overload.met) == (0.07, 0.08, True)
    assert list(overload.samples) == [0.05, 0.09, 0.07]
    assert rows["10 channels, 1,000,000 keys: state moved"].value == 1.0
    assert rows["10 channels, 1,000,000 keys: plan"].value == 2.0
