"""What consumers measure and a planner wants to know: seconds a message, seconds a hand-over, messages that wait."""

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

    Parameters
    ----------
    messages, message_seconds
        Messages processed, and the time that took.
    moves, move_seconds
        Keys handed over, and the time that took: extracting, sending and installing the application's state.

    Examples
    --------
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
    moves: int = 0
    move_seconds: float = 0.0

    def to_text(self) -> str:
        """Return the figures as JSON."""
        return json.dumps({"unskew": [round(figure, 6) for figure in dataclasses.astuple(self)]})

    @classmethod
    def sum(cls, texts: Iterable[str]) -> ConsumerCosts:
        """Add up what `to_text` wrote; other texts are passed over."""
        found = [figures for text in texts if (figures := _figures(text)) is not None]
        return cls(*(sum(column) for column in zip(*found, strict=True))) if found else cls()

    def inform(self, planner: Planner) -> Planner:
        """Return a planner with the measured times, if it has a use for them; what the user has set stays as it is."""
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
    """How a group of consumers stands: messages that wait in each partition, and what its members have measured."""

    lags: tuple[int, ...]
    costs: ConsumerCosts


def _figures(text: str) -> list[float] | None:
    try:
        entry: Any = json.loads(text.rstrip("\0"))  # confluent-kafka commits a zero behind the text
        figures = entry["unskew"]
    except (ValueError, TypeError, KeyError):
        return None
    right = isinstance(figures, list) and len(figures) == len(dataclasses.fields(ConsumerCosts))
    return figures if right else None
