"""Kafka: a gateway that spreads hot keys over partitions, and consumers that put each key's messages back in order."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unskew.kafka.order import OrderMachine

__all__ = ["OrderMachine"]

# imported at first use: consumers need no Spark, gateways no Kafka client
_HOMES = {"OrderMachine": "unskew.kafka.order"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'unskew.kafka' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
