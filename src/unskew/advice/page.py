"""The advice as one page to send to a colleague. It needs no server, no network and no script."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment

from unskew import __version__
from unskew.advice.advice import Advice
from unskew.advice.words import cost, facts
from unskew.watch.words import duration

PAGE = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
BARS = 64  # partitions drawn one by one, the fullest ones
FULL = 1.1  # times the mean

Bar = tuple[str, float, bool, str]


def as_html(advice: Advice) -> str:
    """Return the page."""
    charts = [(f"Load of each partition, in {advice.found.unit}", _partitions(advice))]
    if advice.hot_keys:
        charts.insert(0, ("Heaviest keys, by their share of the load", _keys(advice)))
    page = Environment(autoescape=True).from_string(PAGE)
    given = {"a": advice, "charts": charts, "facts": facts(advice), "cost": cost(advice)}
    return page.render(**given, duration=duration, version=__version__)


def _keys(advice: Advice) -> list[Bar]:
    most, fair = advice.hot_keys[0].share, 1 / advice.cores
    return [(key.key, 100 * key.share / most, key.share > fair, f"{key.share:.1%}") for key in advice.hot_keys]


def _partitions(advice: Advice) -> list[Bar]:
    loads = advice.partition_loads
    most, mean = max(loads) or 1.0, sum(loads) / len(loads)
    places = sorted(sorted(range(len(loads)), key=lambda place: -loads[place])[:BARS])
    return [
        (str(place), 100 * loads[place] / most, loads[place] > FULL * mean, f"{loads[place]:,.6g}") for place in places
    ]
