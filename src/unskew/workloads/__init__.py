"""Seeded generators and real data sets: the streams that everything else is tried on."""

from __future__ import annotations

from unskew.workloads.base import WORKLOADS, Workload
from unskew.workloads.describe import Description, describe
from unskew.workloads.options import workload

__all__ = ["WORKLOADS", "Description", "Workload", "describe", "workload"]
