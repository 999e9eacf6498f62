"""Gateway and consumers against each other, without Kafka, in random order, with everything that may go wrong."""

from __future__ import annotations

import itertools
import random
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

import pytest

from unskew.kafka.decision import GatewayDecision
from unskew.kafka.holds import Spill
from unskew.kafka.messages import CLOSE, Mark, Record
from unskew.kafka.order import Alarm, Install, OrderMachine, Process, SendDone
from unskew.kafka.snapshot import Snapshot


class Topic:
    """Partitions as lists; an offset is a place in the list, with gaps, as transactions leave them."""

    def __init__(self, partitions, rng):
        self.partitions = [[] for _ in range(partitions)]
        self.next_offset = [0] * partitions
        self.rng, self.clock = rng, itertools.count(1)

    def write(self, partition, key, value, mark):
        offset = self.next_offset[partition] + (self.rng.random() < 0.05)
        self.next_offset[partition] = offset + 1
        self.partitions[partition].append(Record(partition, offset, key, value, mark.headers(), next(self.clock)))

    def read(self, partition, offset):
        records = self.partitions[partition]
        at = bisect_left(records, offset, key=lambda record: record.offset)
        return records[at] if at < len(records) else None


@dataclass
class Gateway:
    """Writes batches; any of them may break off in the middle and be written again.

    `ended` says how many messages a key had when a set of it ended. Under the stamp "moved" only rows of keys that have
    a route are numbered, those in `numbered`.
    """

    topic: Topic
    rng: random.Random
    keys: list[bytes]
    decision: GatewayDecision
    sent: dict[bytes, list[bytes]] = field(default_factory=dict)
    stamp: str = "all"
    breaks_off: float = 0.25
    ended: dict[tuple[bytes, int], int] = field(default_factory=dict)
    numbered: set[tuple[bytes, bytes]] = field(default_factory=set)

    def batch(self):
        d = self.decision
        for marker in d.markers:
            if marker.mark.flag == CLOSE:
                self.ended[marker.key, marker.mark.set_id] = len(self.sent.get(marker.key, []))
        rows = [self.rng.choice(self.keys) for _ in range(self.rng.randint(0, 6))]
        values = []
        for key in rows:
            said = self.sent.setdefault(key, [])
            said.append(b"%d" % len(said))
            values.append(said[-1])
        while self.rng.random() < self.breaks_off:
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
                numbered = self.stamp == "all" or key in d.routes
                if numbered:
                    self.numbered.add((key, value))
                self.topic.write(partition, key, value, Mark(sequence=d.first_row_sequence + i if numbered else None))
                written += 1


class Group:
    """Consumers that share the partitions; what they send and store outlives them, what they know does not.

    The state of a key is the number of the set after which it left.
    """

    def __init__(self, topic, rng, members, spill, starts=None):
        self.topic, self.rng, self.spill = topic, rng, spill
        n = len(topic.partitions)
        self.starts, self.beginning = starts or [0] * n, set()
        self.control = [[] for _ in range(n)]
        self.stored = [None] * n
        self.processed = []  # messages, and (key, set) where the state after a set is installed
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
        if stored is not None:
            machine.restore(partition, Snapshot.from_bytes(stored))
        else:
            machine.assign(partition, self.starts[partition])
            if self.starts[partition] > 0:
                self.beginning.add(partition)

    def carry_out(self, actions):
        for action in actions:
            if isinstance(action, Process):
                self.processed.append((action.record.key, action.record.value))
            elif isinstance(action, SendDone):
                self.control[action.target].append((action.key, action.set_id, b"%d" % action.set_id))
                self.processed.append((action.key, ("end", action.set_id)))
            elif isinstance(action, Install):
                self.processed.append((action.key, ("state", int(action.state))))
            elif isinstance(action, Alarm):
                self.alarms.append(action)

    def step(self, quiet):
        partition = self.rng.randrange(len(self.owner))
        member = self.owner[partition]
        machine = self.machines[member]
        chance = self.rng.random()
        if chance < 0.45:
            self.read(machine, partition)
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

    def read(self, machine, partition):
        record = self.topic.read(partition, machine._partitions[partition].position)
        if record is None:
            return False
        if partition in self.beginning:
            self.beginning.remove(partition)
            for control in self.control:
                control.append((None, partition, record.timestamp_ms))
        self.carry_out(machine.on_record(record))
        return True

    def read_control(self, machine, partition):
        at = machine._partitions[partition].control_offset
        if at >= len(self.control[partition]):
            return False
        key, *said = self.control[partition][at]
        if key is None:
            self.carry_out(machine.on_begin(partition, *said, control_offset=at))
        else:
            self.carry_out(machine.on_done(partition, key, *said, control_offset=at))
        return True

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
                while self.read(machine, partition) or self.read_control(machine, partition):
                    busy = True
                while machine.busy:
                    self.carry_out(machine.advance())
                    busy = True


def run(seed):
    rng = random.Random(seed)
    partitions = rng.randint(2, 4)
    topic = Topic(partitions, rng)
    keys = [b"key%d" % i for i in range(rng.randint(1, 4))]
    gateway = Gateway(topic, rng, keys, GatewayDecision.cold(partitions, now_ms=1_700_000_000_000))
    gateway.stamp = rng.choice(["all", "moved"])
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


def check_states(gateway, group, seed):
    """Check that a key leaves after all messages of its set, and that its state is there before the next ones."""
    known, states = {}, Counter()
    for key, what in group.processed:
        ends = {set_id: count for (name, set_id), count in gateway.ended.items() if name == key}
        so_far = known.setdefault(key, set())
        if isinstance(what, tuple):
            kind, set_id = what
            assert so_far >= set(gateway.sent.get(key, [])[: ends[set_id]]), f"seed {seed}: it left too early"
            states[key, set_id] += kind == "state"
        elif what not in so_far:
            so_far.add(what)
            before = [set_id for set_id, count in ends.items() if count <= int(what)]
            assert not before or states[key, max(before)], f"seed {seed}: the state is missing"
    if not group.crashes:
        assert states == dict.fromkeys(gateway.ended, 1), f"seed {seed}"


def check(seed):
    gateway, group, memory = run(seed)
    check_states(gateway, group, seed)
    processed = [(key, value) for key, value in group.processed if isinstance(value, bytes)]
    seen = {}
    for key, value in processed:
        seen.setdefault(key, []).append(value)
    sent = {key: values for key, values in gateway.sent.items() if values}
    first = {key: list(dict.fromkeys(values)) for key, values in seen.items()}
    assert first == sent, f"seed {seed}"
    if not group.crashes:
        times = Counter(processed)
        assert all(times[each] == 1 for each in gateway.numbered), f"seed {seed}: processed twice"
    if gateway.stamp == "all":
        assert len(gateway.numbered) == sum(map(len, sent.values()))
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


def check_late(seed):
    """A group begins where others were: at one moment in all partitions, or anywhere.

    Not inside a batch that is written again: of such a one it may see a marker's second copy in one partition, and take
    that of another for a duplicate of what it has read.
    """
    rng = random.Random(seed)
    partitions = rng.randint(2, 4)
    topic = Topic(partitions, rng)
    keys = [b"key%d" % i for i in range(rng.randint(1, 4))]
    gateway = Gateway(topic, rng, keys, GatewayDecision.cold(partitions, now_ms=1_700_000_000_000))
    gateway.breaks_off = 0.0
    for _ in range(rng.randint(1, 10)):
        gateway.batch()
    gateway.breaks_off = 0.25
    moment = rng.randrange(next(topic.clock))
    starts = [next((r.offset for r in part if r.timestamp_ms > moment), None) for part in topic.partitions]
    starts = [end if start is None else start for start, end in zip(starts, topic.next_offset, strict=True)]
    anywhere = rng.random() < 0.5
    if anywhere:
        starts = [rng.randint(0, start) for start in starts]
    group = Group(topic, rng, rng.randint(1, 3), Spill, starts)
    for _ in range(rng.randint(0, 60)):
        if rng.random() < 0.1:
            gateway.batch()
        else:
            group.step(quiet=False)
    for partition in range(partitions):
        topic.write(partition, None, b"", Mark())  # time goes on everywhere
    group.finish()
    assert all(machine.keys_on_hold == 0 for machine in group.machines), f"seed {seed}: held for ever"
    first_copies = {(r.key, r.value): r for part in topic.partitions for r in reversed(part) if r.value}
    wanted = {each for each, r in first_copies.items() if r.offset >= starts[r.partition]}
    processed = list(
        dict.fromkeys((key, int(value)) for key, value in group.processed if key and isinstance(value, bytes))
    )
    assert wanted <= {(key, b"%d" % number) for key, number in processed}, f"seed {seed}: lost"
    if not anywhere:
        for key in keys:
            numbers = [number for name, number in processed if name == key]
            assert numbers == sorted(numbers), f"seed {seed}: order"
    return sum(key is None for control in group.control for key, *_ in control)


def test_groups_that_begin_late_hold_nothing_for_ever():
    assert sum(check_late(seed) for seed in range(500)) > 500


@pytest.mark.slow
def test_a_hundred_thousand_interleavings():
    for seed in range(1500, 101_500):
        check(seed)
