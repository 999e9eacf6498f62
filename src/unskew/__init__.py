"""Keeps stateful stream processing on Spark balanced when keys are skewed and drift."""

from __future__ import annotations

from unskew.kernel_cache import ensure_kernel_cache

__version__ = "0.1.0"

ensure_kernel_cache()
