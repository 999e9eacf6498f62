from __future__ import annotations

import pytest

from unskew_lab.bench.aggregates import QUICK_CASES, RUNNING, Case, running, windows
from unskew_lab.report.growth import draw_growth


def test_the_quick_cases_are_among_the_whole_ones_and_names_tell_them_apart():
    assert set(QUICK_CASES) < set(RUNNING)
    assert len({case.name for case in RUNNING}) == len(RUNNING)
    assert RUNNING[0].scaled(0.1).rows == 2_000


def test_growth_is_drawn_over_both_sizes(tmp_path):
    sizes = {"growth with rows, 1,000 rows": 0.2, "growth with rows, 10,000 rows": 0.3}
    sizes |= {"growth with keys held, 10,000 keys held": 0.3, "growth with keys held, 100,000 keys held": 0.4}
    rows = [{"name": name, "contender": who, "value": value} for name, value in sizes.items() for who in WHO]
    picture = tmp_path / "growth.svg"
    assert draw_growth([{"benchmark": "aggregates", "rows": rows}], picture)
    assert "keys held, 10,000 rows a batch" in picture.read_text(encoding="utf-8")
    assert not draw_growth([{"benchmark": "aggregates", "rows": []}], picture)


WHO = ("native", "unskew")


@pytest.mark.spark
@pytest.mark.slow
def test_aggregates_take_turns_with_native_ones(spark, tmp_path):
    case = Case(300, 100, 2, 1.0, exponent=1.4, even_within=2.0)
    ratio, *rows = running(spark, tmp_path / "running", case, turns=2)
    medians = {row.contender: row.value for row in rows if row.name.endswith("batch, median")}
    assert ratio.value == pytest.approx(medians["native"] / medians["unskew"])
    assert rows[-1].name.endswith("worst batch")
    assert 1 <= rows[-1].value < 2
    held = running(spark, tmp_path / "held", Case(100, 0, 2, 3.0, held=500), turns=1)
    assert held[0].name == "count and sum, 100 rows, 500 keys held, 2 partitions: native over unskew"
    names = [row.name for row in windows(spark, tmp_path / "windows", 200, turns=1) if row.target]
    assert [name.partition(",")[0] for name in names] == ["tumbling windows", "sliding windows", "sessions"]
