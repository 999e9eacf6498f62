"""One run: messages, a way to route them, and how long they waited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.load.metrics import overload
from unskew_lab.simulation.queueing.gateway import Decision, Gateway, route
from unskew_lab.simulation.queueing.queues import consume, kernel_wait
from unskew_lab.simulation.queueing.topic import Arrivals, Topic

CONTENDERS = ("smalops", "kafka", "round-robin")
QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
Column = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class QueueingRun:
    """How long every message waited."""

    contender: str  # who routed; a gateway goes by the name of its planner
    topic: Topic  # what was simulated
    # arrival_seconds, broker_seconds, end_to_end_seconds: per message: when it arrived, its time in the broker, and its
    # time until processing began, which is longer for messages held back to keep their key in order
    arrival_seconds: Column
    broker_seconds: Column
    end_to_end_seconds: Column
    messages: NDArray[np.int64]  # per partition: how many it was sent
    decisions: tuple[Decision, ...] = ()  # what the gateway decided
    most_held: int = 0  # messages held back at the same time, at the most

    def quantiles(self, which: str = "broker", after_seconds: float = 0.0, levels: Any = QUANTILES) -> Column:
        """Return quantiles of the delays, in seconds, of messages that arrive after a warm-up.

        `which` is ``"broker"`` or ``"end_to_end"``.
        """
        delays = {"broker": self.broker_seconds, "end_to_end": self.end_to_end_seconds}[which]
        later = delays[np.searchsorted(self.arrival_seconds, after_seconds) :]
        return np.quantile(later, levels) if len(later) else np.full(len(levels), np.nan)

    def totals(self, warm_up_seconds: float = 10.0) -> dict[str, Any]:
        """Return the run in figures: delays in microseconds, with the first window and without."""
        figures: dict[str, Any] = {"contender": self.contender, "messages": len(self.arrival_seconds)}
        for which in ("broker", "end_to_end"):
            for name, after in (("", 0.0), ("_warm", warm_up_seconds)):
                for level, value in zip(QUANTILES, self.quantiles(which, after), strict=True):
                    figures[f"{which}{name}_p{100 * level:g}_us"] = 1e6 * float(value)
        held = self.end_to_end_seconds > self.broker_seconds
        figures["imbalance"] = overload(self.messages)
        figures["held_share"] = float(held.mean())
        figures["longest_hold_us"] = 1e6 * float((self.end_to_end_seconds - self.broker_seconds).max(initial=0.0))
        figures["most_held"] = self.most_held
        figures["moves"] = sum(d.moves for d in self.decisions)
        for name in ("hot_keys", "most_hot_keys", "entries", "unsplittable"):
            figures[name] = max((getattr(d, name) for d in self.decisions), default=0)
        return figures


def simulate_queues(
    topic: Topic, contender: str = "smalops", *, gateway: Gateway | None = None, arrivals: Arrivals | None = None
) -> QueueingRun:
    """Simulate a topic under one way of routing.

    ``"kafka"`` leaves each key where Kafka's own partitioner puts it. ``"round-robin"`` sends one message after the
    other, whatever its key: it keeps no order, and no way of routing whole keys can beat it. ``"smalops"`` moves hot
    keys as the `gateway` decides. Pass `arrivals` to give several contenders the same messages.

    >>> topic = Topic(partitions=4, utilisation=0.8, seconds=2.0, key_count=1000)
    >>> waits = [simulate_queues(topic, c, gateway=Gateway(interval_seconds=0.5)).quantiles()[3] for c in CONTENDERS]
    >>> waits[2] < waits[0] < waits[1]
    np.True_
    """
    require_contender(contender)
    messages = topic.arrivals() if arrivals is None else arrivals
    if contender == "smalops":
        return _balanced(topic, gateway or Gateway(), messages)
    if contender == "kafka":
        partition = np.mod(topic.hashes(messages.keys), topic.partitions).astype(np.int32)[messages.keys]
    else:
        partition = (np.arange(len(messages.keys)) % topic.partitions).astype(np.int32)
    waits = kernel_wait(messages.seconds, partition, topic.message_seconds, np.zeros(topic.partitions))
    sent = np.bincount(partition, minlength=topic.partitions)
    return QueueingRun(contender, topic, messages.seconds, waits, waits, sent)


def require_contender(name: str) -> None:
    """Raise `ArgumentError` unless there is a way of routing of that name."""
    if name not in CONTENDERS:
        hint = f"one of {', '.join(CONTENDERS)}"
        raise ArgumentError("there is no such way of routing", where="contender", got=name, hint=hint)


def _balanced(topic: Topic, gateway: Gateway, messages: Arrivals) -> QueueingRun:
    routed = route(gateway, topic, messages)
    sent, decisions = routed.sets.sent, tuple(routed.decisions)
    if not gateway.ordered:
        waits = kernel_wait(messages.seconds, routed.partition, topic.message_seconds, np.zeros(topic.partitions))
        return QueueingRun(gateway.planner.name, topic, messages.seconds, waits, waits, sent, decisions)
    seconds = {"message_seconds": topic.message_seconds, "handover_seconds": gateway.handover_seconds}
    held = consume(messages.seconds, routed.partition, routed.label, routed.sets, **seconds)
    delays = held.broker_seconds, held.end_to_end_seconds
    return QueueingRun(gateway.planner.name, topic, messages.seconds, *delays, sent, decisions, held.most_held)
