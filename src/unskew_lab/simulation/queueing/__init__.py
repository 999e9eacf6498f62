"""How long messages wait in a broker: one queue and one consumer per partition, keys routed in different ways."""

from __future__ import annotations

from unskew_lab.simulation.queueing.gateway import Decision, Gateway
from unskew_lab.simulation.queueing.run import CONTENDERS, QueueingRun, simulate_queues
from unskew_lab.simulation.queueing.topic import Topic

__all__ = ["CONTENDERS", "Decision", "Gateway", "QueueingRun", "Topic", "simulate_queues"]
