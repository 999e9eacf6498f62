"""Gateway and consumers against each other, without Kafka, in random order, with everything that may go wrong."""

from __future__ import annotations

import random
from bisect import bisect_left
from dataclasses import dataclass, field

import pytest

from unskew.kafka.decision import GatewayDecision
from unskew.kafka.holds import Spill
from unskew.kafka.messages import Mark, Record
from unskew.kafka.order import Alarm, OrderMachine, Process, SendDone
from unskew.kafka.snapshot import Snapshot


class Topic:
    """Partitions as lists; an offset is a place in the list, with gaps, as transactions leave them."""

    def __init__(self, partitions, rng):
        self.partitions = [[] for _ in range(partitions)]
        self.next_offset = [0] * partitions
        self.rng = rng

    def write(self, partition, key, value, mark):
        offset = self.next_offset[partition] + (self.rng.random() < 0.05)
        self.next_offset[partition] = offset + 1
        self.partitions[partition].append(Record(partition, offset, key, value, mark.headers()))

    def read(self, partition, offset):
        records = self.partitions[partition]
        at = bisect_left(records, offset, key=lambda record: record.offset)
        return records[at] if at < len(records) else None


@dataclass
class Gateway:
    """Writes batches; any of them may break off in the middle and be written again."""

    topic: Topic
    rng: random.Random
    keys: list[bytes]
    decision: GatewayDecision
    sent: dict[bytes, list[bytes]] = field(default_factory=dict)
    stamp_all: bool = True

    def batch(self):
        d = self.decision
        rows = [self.rng.choice(self.keys) for _ in range(self.rng.randint(0, 6))]
        values = []
        for key in rows:
            said = self.sent.setdefault(key, [])
            said.append(b"%d" % len(said))
            values.append(said[-1])
        while self.rng.random() < 0.25:
            self.write(d, rows, values, self.rng.randint(0, len(rows) + len(d.markers)))
            d = GatewayDecision.from_bytes(d.to_bytes())  # a new process reads what the old one wrote down
        self.write(d, rows, values, len(rows) + len(d.markers))
        messages = {key: rows.count(key) for key in set(rows)}
        lost = self.rng.random() < 0.1
        d = d.counted(None if lost else messages)
        d = d.following(d.batch_id + 1, restarted_at_ms=1_700_000_001_000 if lost else None)
        if self.rng.random() < 0.6:
            moving = self.rng.sample(self.keys, self.rng.randint(1, len(self.keys)))
            d = d.with_moves({key: self.rng.randrange(d.partitions) for key in moving})
        self.decision = d

    def write(self, d, rows, values, until):
        for marker in d.markers[:until]:
            self.topic.write(marker.partition, marker.key, None, marker.mark)
        tasks = {}
        for key, value in zip(rows, values, strict=True):
            tasks.setdefault(d.partition_of(key), []).append((key, value))
        written = len(d.markers)
        # tasks write side by side: broken off, each of them has written some of its rows
        for partition, part in tasks.items():
            for i, (key, value) in enumerate(part):
                if written >= until:
                    break
                route = d.routes.get(key)
                mark = Mark(set_id=route.set_id if route else None, sequence=d.first_row_sequence + i)
                self.topic.write(partition, key, value, mark)
                written += 1


class Group:
    """Consumers that share the partitions; what they send and store outlives them, what they know does not."""

    def __init__(self, topic, rng, members, spill):
        self.topic, self.rng, self.spill = topic, rng, spill
        n = len(topic.partitions)
        self.control = [[] for _ in range(n)]
        self.stored = [None] * n
        self.processed = []
        self.alarms = []
        self.crashes = 0
        self.most_held = 0
        self.machines = [None] * members
        self.owner = [rng.randrange(members) for _ in range(n)]
        for member in range(members):
            self.start(member)

    def start(self, member):
        if self.machines[member] is not None:
            self.machines[member].close()
        self.machines[member] = OrderMachine(self.spill(), drain_limit=self.rng.choice([1, 3, 1000]))
        for partition, owner in enumerate(self.owner):
            if owner == member:
                self.take_over(member, partition)

    def take_over(self, member, partition):
        machine, stored = self.machines[member], self.stored[partition]
        machine.restore(partition, Snapshot() if stored is None else Snapshot.from_bytes(stored))

    def carry_out(self, actions):
        for action in actions:
            if isinstance(action, Process):
                self.processed.append((action.record.key, action.record.value))
            elif isinstance(action, SendDone):
                self.control[action.target].append((action.key, action.set_id))
            elif isinstance(action, Alarm):
                self.alarms.append(action)

    def step(self, quiet):
        partition = self.rng.randrange(len(self.owner))
        member = self.owner[partition]
        machine = self.machines[member]
        chance = self.rng.random()
        if chance < 0.45:
            record = self.topic.read(partition, machine._partitions[partition].position)
            if record is not None:
                self.carry_out(machine.on_record(record))
        elif chance < 0.8:
            self.read_control(machine, partition)
        elif chance < 0.9:
            self.carry_out(machine.advance())
        elif chance < 0.95:
            self.store(machine, partition)
        elif quiet:
            pass
        elif chance < 0.975:
            self.crashes += 1
            self.start(member)
        else:
            if self.rng.random() < 0.5:
                self.store(machine, partition)
            else:
                self.crashes += 1
            machine.revoke(partition)
            self.owner[partition] = self.rng.randrange(len(self.machines))
            self.take_over(self.owner[partition], partition)
        self.most_held = max(self.most_held, *(m._spill.used_bytes for m in self.machines))

    def read_control(self, machine, partition):
        at = machine._partitions[partition].control_offset
        if at < len(self.control[partition]):
            key, done = self.control[partition][at]
            self.carry_out(machine.on_done(partition, key, done, control_offset=at))

    def store(self, machine, partition):
        snapshot = machine.snapshot(partition)
        assert snapshot.safe_offset == machine.safe_offset(partition)
        self.stored[partition] = snapshot.to_bytes()

    def finish(self):
        """Read everything to its end."""
        busy = True
        while busy:
            busy = False
            for partition, member in enumerate(self.owner):
                machine = self.machines[member]
                part = machine._partitions[partition]
                while (record := self.topic.read(partition, part.position)) is not None:
                    self.carry_out(machine.on_record(record))
                    busy = True
                while part.control_offset < len(self.control[partition]):
                    self.read_control(machine, partition)
                    busy = True
                while machine.busy:
                    self.carry_out(machine.advance())
                    busy = True


def run(seed, tmp_path=None):
    rng = random.Random(seed)
    partitions = rng.randint(2, 4)
    topic = Topic(partitions, rng)
    keys = [b"key%d" % i for i in range(rng.randint(1, 4))]
    gateway = Gateway(topic, rng, keys, GatewayDecision.cold(partitions, now_ms=1_700_000_000_000))
    memory = rng.choice([0, 300, 1 << 20])
    group = Group(topic, rng, rng.randint(1, 3), lambda: Spill(memory))
    quiet = rng.random() < 0.3
    for _ in range(rng.randint(20, 120)):
        if rng.random() < 0.15:
            gateway.batch()
        else:
            group.step(quiet)
    group.finish()
    return gateway, group, memory


def check(seed):
    gateway, group, memory = run(seed)
    seen = {}
    for key, value in group.processed:
        seen.setdefault(key, []).append(value)
    sent = {key: values for key, values in gateway.sent.items() if values}
    first = {key: list(dict.fromkeys(values)) for key, values in seen.items()}
    assert first == sent, f"seed {seed}"
    if not group.crashes:
        assert seen == sent, f"seed {seed}: processed twice"
    assert not group.alarms, f"seed {seed}: {group.alarms}"
    assert group.most_held <= memory
    for machine in group.machines:
        assert machine.held == machine.keys_on_hold == machine._spill.used_bytes == 0
        for part in machine._partitions.values():
            assert len(part.sets) <= len(gateway.keys)
            assert len(part.dones) <= len(gateway.keys)
            if not group.crashes:
                assert not part.dones
    return gateway, group


def test_interleavings_quickly():
    moves = crashes = 0
    for seed in range(1500):
        gateway, group = check(seed)
        moves += gateway.decision.epoch
        crashes += group.crashes
    assert moves > 5_000
    assert crashes > 1_000


@pytest.mark.slow
def test_a_hundred_thousand_interleavings():
    for seed in range(1500, 101_500):
        check(seed)
