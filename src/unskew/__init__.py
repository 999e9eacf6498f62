"""Keeps stateful stream processing on Spark balanced when keys are skewed and drift."""

from __future__ import annotations

__version__ = "0.1.0"
