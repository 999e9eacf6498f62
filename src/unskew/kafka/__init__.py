"""Kafka: a gateway that spreads hot keys over partitions, and consumers that put each key's messages back in order."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unskew.kafka.consumer import OrderedConsumer
    from unskew.kafka.order import OrderMachine
    from unskew.kafka.spark_gateway import Gateway, gateway
    from unskew.kafka.spark_reader import read_ordered

__all__ = ["Gateway", "OrderMachine", "OrderedConsumer", "gateway", "read_ordered"]

# imported at first use: consumers need no Spark, gateways no Kafka client
_HOMES = {
    "Gateway": "unskew.kafka.spark_gateway",
    "OrderMachine": "unskew.kafka.order",
    "OrderedConsumer": "unskew.kafka.consumer",
    "gateway": "unskew.kafka.spark_gateway",
    "read_ordered": "unskew.kafka.spark_reader",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'unskew.kafka' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
