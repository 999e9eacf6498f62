"""Flux's planners: slots move in rounds, one per pair of channels, by load, by memory, or by both."""

from __future__ import annotations

from unskew.planners.flux.hybrid import FluxHybrid
from unskew.planners.flux.load import FluxLoad
from unskew.planners.flux.memory import FluxMemory

__all__ = ["FluxHybrid", "FluxLoad", "FluxMemory"]
