"""Simulators for what needs more machines than one."""

from __future__ import annotations

from unskew_lab.simulation.cluster import Cluster, simulate
from unskew_lab.simulation.record import Result, RoundRecord
from unskew_lab.simulation.setup import MemoryChange, Setup, Slowdown

__all__ = ["Cluster", "MemoryChange", "Result", "RoundRecord", "Setup", "Slowdown", "simulate"]
