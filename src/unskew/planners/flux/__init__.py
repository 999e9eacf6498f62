"""Flux's planners: slots move in rounds, one per pair of channels, by load, by memory, or by both.

Shah et al., "Flux: An Adaptive Partitioning Operator for Continuous Query Systems", ICDE 2003.
"""

from __future__ import annotations

from unskew.planners.flux.policies import FluxHybrid, FluxLoad, FluxMemory

__all__ = ["FluxHybrid", "FluxLoad", "FluxMemory"]
