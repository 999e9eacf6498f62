"""Metrics where operators look: a dashboard for Grafana, alert rules for Prometheus, and OpenTelemetry.

The metrics themselves are made by `unskew.spark.prometheus`. ``grafana.json`` and ``alerts.yml`` use them by name.
"""

from __future__ import annotations

from pathlib import Path

FILES = {"grafana": "grafana.json", "alerts": "alerts.yml"}


def example(name: str) -> str:
    """Return the text of a file that comes along: ``"grafana"`` or ``"alerts"``.

    >>> example("alerts").splitlines()[-1].strip() != ""
    True
    """
    return (Path(__file__).parent / FILES[name]).read_text(encoding="utf-8")
