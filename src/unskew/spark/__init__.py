"""The runtime on Structured Streaming: the only folder, with the workloads' source, that imports pyspark."""

from __future__ import annotations

from unskew.spark.check import check_session
from unskew.spark.session import session
from unskew.workloads.spark_source import register as register_workloads

__all__ = ["check_session", "register_workloads", "session"]
