"""What consumers measure for the planner: seconds a message, seconds a hand-over, messages that wait."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from unskew.planners.base import Planner


@dataclass(frozen=True)
class ConsumerCosts:
    """Work of a consumer so far. It travels as the metadata of the offsets that the consumer commits.

    >>> costs = ConsumerCosts(messages=1000, message_seconds=0.05, moves=4, move_seconds=0.2)
    >>> ConsumerCosts.sum([costs.to_text(), costs.to_text(), "of somebody else"]).moves
    8
    >>> from unskew.planners import planner
    >>> informed = costs.inform(planner("smalops", rule="backlog"))
    >>> informed.message_seconds, informed.move_seconds
    (5e-05, 0.05)
    """

    messages: int = 0
    message_seconds: float = 0.0
    moves: int = 0  # keys handed over
    move_seconds: float = 0.0  # to extract, send and install the application's state

    def to_text(self) -> str:
        return json.dumps({"unskew": [round(figure, 6) for figure in dataclasses.astuple(self)]})

    @classmethod
    def sum(cls, texts: Iterable[str]) -> ConsumerCosts:
        """Add up what `to_text` wrote; other texts are ignored."""
        found = [figures for text in texts if (figures := _figures(text)) is not None]
        return cls(*(sum(column) for column in zip(*found, strict=True))) if found else cls()

    def inform(self, planner: Planner) -> Planner:
        """Return the planner with the measured times, where it uses them and the user has not set them."""
        parameters: Iterable[dataclasses.Field[Any]] = getattr(planner, "__dataclass_fields__", {}).values()
        measured = {
            "message_seconds": self.message_seconds / self.messages if self.messages else 0.0,
            "move_seconds": self.move_seconds / self.moves if self.moves else 0.0,
        }
        known = {
            each.name: measured[each.name]
            for each in parameters
            if measured.get(each.name) and getattr(planner, each.name) == each.default
        }
        changed: Any = planner
        return dataclasses.replace(changed, **known) if known else planner


@dataclass(frozen=True)
class GroupUse:
    """Messages that wait for a group of consumers in each partition, and what its members have measured."""

    lags: tuple[int, ...]
    costs: ConsumerCosts


def _figures(text: str) -> list[float] | None:
    try:
        entry: Any = json.loads(text.rstrip("\0"))  # confluent-kafka appends a zero
        figures = entry["unskew"]
    except (ValueError, TypeError, KeyError):
        return None
    right = isinstance(figures, list) and len(figures) == len(dataclasses.fields(ConsumerCosts))
    return figures if right else None
