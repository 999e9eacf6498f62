"""How long messages wait on a real broker: Kafka's own partitioner, round robin, and the gateway's routes."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.hashing import kafka_partitions
from unskew.kafka.decision import GatewayDecision
from unskew.kafka.messages import Record
from unskew.kafka.order import Action, OrderMachine, Process, SendDone
from unskew.kafka.planning import Decider, Window
from unskew.planners import planner

Contender = Literal["kafka", "smalops", "round-robin"]
Which = Literal["broker", "end_to_end", "queueing"]
CONTENDERS: tuple[Contender, ...] = ("kafka", "smalops", "round-robin")

EXPONENT, OFFSET = 1.1, 2.72  # of the paper's generator: P(k) ~ (offset + k) ** -exponent
TICK_SECONDS = 0.005
DRAIN_SECONDS = 120.0


@dataclass(frozen=True)
class Load:
    """An open stream of messages, and consumers that take a fixed time for each.

    Real messages, a real broker, real consumers; only the clock is slower. A message takes `slower` times as long as
    in the paper and they come as much more rarely, so that one small machine can play all consumers: queues behave
    alike, and delays divided by `slower` are those of the faster system. A consumer's time is waited for, not computed.

    >>> load = Load(message_seconds=50e-6)
    >>> round(load.rate), load.service_seconds
    (1360, 0.005)
    """

    message_seconds: float  # what a message takes, before it is slowed down: 20 to 50 microseconds in the paper
    # share of the time in which consumers would be busy at `calibrated_seconds` a message, if all were equal. The rate
    # follows from it, and stays when `message_seconds` changes.
    utilisation: float = 0.85
    # partitions, keys: of the topic
    partitions: int = 8
    keys: int = 100_000
    # seconds, interval_seconds: length of the run, and between two plans, as the clock on the wall has it
    seconds: float = 30.0
    interval_seconds: float = 5.0
    slower: float = 100.0  # by how much time is stretched
    calibrated_seconds: float = 50e-6
    seed: int = 0

    @property
    def service_seconds(self) -> float:
        return self.message_seconds * self.slower

    @property
    def rate(self) -> float:
        return self.utilisation * self.partitions / (self.calibrated_seconds * self.slower)

    def messages(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        rng = np.random.default_rng(self.seed)
        times = np.cumsum(rng.exponential(1 / self.rate, int(1.2 * self.rate * self.seconds) + 100))
        times = times[times < self.seconds]
        weight = (OFFSET + np.arange(self.keys)) ** -EXPONENT
        ranks = np.searchsorted(np.cumsum(weight / weight.sum()), rng.random(len(times)))
        return times, ranks.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Delays:
    """What was measured, message by message, in seconds.

    `came`: after the start. `broker`: until its consumer took it. `end_to_end`: until it was begun. `queueing`: how
    long it waited for messages before it, or for its key's hand-over; in contrast to the others it leaves out what a
    busy machine adds by waking up threads late.
    """

    load: Load
    came: NDArray[np.float64]
    broker: NDArray[np.float64]
    end_to_end: NDArray[np.float64]
    queueing: NDArray[np.float64]
    moves: int
    held: int
    share_of_fullest: float

    def quantile(self, which: Which, share: float, after: float = 0.0) -> float:
        """Return a quantile of a delay in seconds of the faster system, of messages that came `after` so many."""
        chosen = getattr(self, which)[self.came >= after]
        return float(np.quantile(chosen, share)) / self.load.slower


def measure(bootstrap: str, topic: str, contender: Contender, load: Load) -> Delays:
    """Send a load through a topic that is there and empty, and measure how long each message waits."""
    from confluent_kafka import Producer  # noqa: PLC0415 (optional)

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 3})
    counted: Counter[int] = Counter()
    servers = [_Server(bootstrap, topic, partition, load) for partition in range(load.partitions)]
    for server in servers:
        server.others = servers
        server.thread.start()
    for server in servers:
        server.ready.wait(DRAIN_SECONDS)
    sender = _Sender(producer, topic, contender, load, counted)
    sender.run()
    producer.flush()
    end = time.monotonic() + DRAIN_SECONDS
    for server in servers:
        server.expected = counted[server.partition]
    for server in servers:
        server.thread.join(max(0.1, end - time.monotonic()))
    rows = np.array([row for server in servers for row in server.rows], np.float64).reshape(-1, 4)
    fullest = max(counted.values()) * load.partitions / max(1, sum(counted.values()))
    return Delays(
        load,
        rows[:, 0] - sender.began,
        rows[:, 1],
        rows[:, 2],
        rows[:, 3],
        sender.moves,
        sum(server.held for server in servers),
        fullest,
    )


class _Sender:
    """The way into the topic: every few milliseconds, what has come since."""

    def __init__(self, producer: Any, topic: str, contender: Contender, load: Load, counted: Counter[int]) -> None:
        self.producer, self.topic, self.contender, self.load = producer, topic, contender, load
        self.counted = counted
        self.moves, self.began = 0, 0.0
        self.window = Window()
        self.decider = Decider(planner("smalops"), load.interval_seconds)

    def run(self) -> None:
        load = self.load
        times, ranks = load.messages()
        used, inverse = np.unique(ranks, return_inverse=True)
        names = [b"key%d" % rank for rank in used.tolist()]
        homes = kafka_partitions(pa.array(names, pa.binary()), load.partitions).tolist()
        keys, at = inverse.tolist(), 0
        self.began = time.time()
        decision = GatewayDecision.cold(load.partitions, now_ms=int(self.began * 1000))
        while at < len(times):
            now = time.time()
            due = int(np.searchsorted(times, now - self.began))
            if self.contender == "smalops":
                decision = self._planned(decision, int(now * 1000))
            counts: Counter[int] = Counter()
            for number in range(at, due):
                key = keys[number]
                name, partition = names[key], homes[key]
                if self.contender == "round-robin":
                    name, partition = None, number % load.partitions
                elif decision.routes:
                    route = decision.routes.get(name)
                    partition = partition if route is None else route.partition
                # the time at which it came, not at which this loop got to it
                came = int((self.began + times[number]) * 1000)
                self.producer.produce(self.topic, b"", name, partition, timestamp=came)
                self.counted[partition] += 1
                counts[key] += 1
            self.window.add(due - at, {names[key]: count for key, count in counts.items()})
            self.producer.poll(0)
            at = due
            time.sleep(TICK_SECONDS)

    def _planned(self, decision: GatewayDecision, now_ms: int) -> GatewayDecision:
        if not self.decider.due(decision, self.window, now_ms):
            return decision
        decision, _ = self.decider.decide(decision.following(decision.batch_id + 1), self.window, now_ms)
        self.moves += len(decision.markers) // 2
        for marker in decision.markers:
            headers = list(marker.mark.headers())
            self.producer.produce(self.topic, None, marker.key, marker.partition, headers=headers, timestamp=now_ms)
            self.counted[marker.partition] += 1
        return decision


@dataclass
class _Server:
    """A consumer of one partition that takes a fixed time for each message, on a thread of its own."""

    bootstrap: str
    topic: str
    partition: int
    load: Load
    others: list[_Server] = field(default_factory=list)
    inbox: deque[tuple[bytes, int, float]] = field(default_factory=deque)
    rows: list[tuple[float, float, float, float]] = field(default_factory=list)
    expected: int | None = None
    held: int = 0

    def __post_init__(self) -> None:
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.machine = OrderMachine()
        self.machine.assign(self.partition)
        self.taken: dict[int, float] = {}
        self.free_at = 0.0

    def serve(self) -> None:
        """Take messages, and hand-overs, until everything has come and nothing waits."""
        from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415 (optional)

        group = f"{self.topic}-{self.partition}"
        settings = {"bootstrap.servers": self.bootstrap, "group.id": group, "fetch.wait.max.ms": 10, "log_level": 3}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition(self.topic, self.partition, 0)])
        consumer.poll(0.5)
        self.ready.set()
        read, end = 0, time.monotonic() + self.load.seconds + DRAIN_SECONDS
        while self.expected is None or read < self.expected or self.machine.keys_on_hold:
            self._hand_overs()
            for message in consumer.consume(20, 0.01):
                if message.error() is None:
                    read += 1
                    self._take(message)
            if time.monotonic() > end:
                break
        consumer.close()

    def _take(self, message: Any) -> None:
        self._hand_overs()
        self._wait()
        now = time.time()
        headers = tuple(message.headers() or ())
        record = Record(
            self.partition, message.offset(), message.key(), message.value(), headers, message.timestamp()[1]
        )
        self.taken[record.offset] = now
        actions = self.machine.on_record(record, now)
        if not actions and record.value is not None:
            self.held += 1
        self._do(actions, earliest=record.timestamp_ms / 1000)

    def _hand_overs(self) -> None:
        while self.inbox:
            key, set_id, ready_at = self.inbox.popleft()
            self._do(self.machine.on_done(self.partition, key, set_id, now=time.time()), earliest=ready_at)

    def _do(self, actions: list[Action], earliest: float = 0.0) -> None:
        for action in actions:
            if isinstance(action, Process):
                self._wait()
                now, record = time.time(), action.record
                came = record.timestamp_ms / 1000
                # by the clock of an ideal consumer: one that is woken up late catches up, and no delay adds to the next
                begun = max(self.free_at, came, earliest)
                self.free_at = begun + self.load.service_seconds
                taken = self.taken.pop(record.offset)
                self.rows.append((came, max(0.0, taken - came), max(0.0, now - came), begun - came))
            elif isinstance(action, SendDone):
                ready_at = max(self.free_at, earliest)
                self.others[action.target].inbox.append((action.key, action.set_id, ready_at))

    def _wait(self) -> None:
        left = self.free_at - time.time()
        if left > 0:
            time.sleep(left)
