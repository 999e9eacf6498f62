"""Metrics where operators look: a dashboard for Grafana, alert rules for Prometheus, and OpenTelemetry.

The metrics themselves are made by `unskew.spark.prometheus`. ``grafana.json`` and ``alerts.yml`` use them by name.
"""

from __future__ import annotations

from pathlib import Path

FILES = {"grafana": "grafana.json", "alerts": "alerts.yml"}


def path_of(name: str) -> Path:
    """Return where a file is that comes along: ``"grafana"`` or ``"alerts"``.

    >>> path_of("alerts").name
    'alerts.yml'
    """
    return Path(__file__).parent / FILES[name]
