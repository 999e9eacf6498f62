"""What a DataFrame's logical plan says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

# logical nodes that keep the order of rows within a partition; anything else may shuffle
ORDER_KEPT = {
    "Project",
    "Filter",
    "SubqueryAlias",
    "EventTimeWatermark",
    "MapInArrow",
    "MapInPandas",
    "Generate",
    "Union",
}


def has_shuffle(rows: DataFrame) -> bool:
    """Tell whether anything above these rows may change their order within a partition from one run to the next."""
    return any(node.children().size() and node.nodeName() not in ORDER_KEPT for node in _nodes(rows))


def watermark_columns(rows: DataFrame) -> list[str]:
    """Return the columns on which there are watermarks, as they are named where the watermark is set."""
    return [node.eventTime().name() for node in _nodes(rows) if node.nodeName() == "EventTimeWatermark"]


def _nodes(rows: DataFrame) -> Iterator[Any]:
    """Yield the nodes of the rows' logical plan."""
    waiting: list[Any] = [rows._jdf.queryExecution().analyzed()]
    while waiting:
        node = waiting.pop()
        yield node
        children = node.children()
        waiting.extend(children.apply(i) for i in range(children.size()))
