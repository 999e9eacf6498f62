"""The failure cases one by one, each with the trace that must come out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unskew.errors import ArgumentError, FormatError, StateError
from unskew.kafka.holds import Spill
from unskew.kafka.messages import CLOSE, OPEN, Mark, Record
from unskew.kafka.order import Alarm, Install, OrderMachine, Process, SendDone
from unskew.kafka.snapshot import Snapshot

K = b"k"


def opening(partition, offset, set_id, previous, source, **more):
    return Record(
        partition, offset, K, None, Mark(OPEN, set_id, neighbour=previous, partition=source, **more).headers()
    )


def closing(partition, offset, set_id, following, target, **more):
    return Record(
        partition, offset, K, None, Mark(CLOSE, set_id, neighbour=following, partition=target, **more).headers()
    )


def data(partition, offset, value, key=K, **more):
    return Record(partition, offset, key, value, Mark(**more).headers() if more else ())


def machine(*partitions, **options):
    made = OrderMachine(**options)
    for partition in partitions:
        made.assign(partition)
    return made


def values(actions):
    return [action.record.value for action in actions if isinstance(action, Process)]


def test_other_keys_flow_while_one_is_held():
    m = machine(1)
    m.on_record(opening(1, 0, 2, 1, 0))
    assert m.on_record(data(1, 1, b"held")) == []
    assert values(m.on_record(data(1, 2, b"other", key=b"x"))) == [b"other"]
    assert values(m.on_record(data(1, 3, b"none", key=None))) == [b"none"]
    assert (m.held, m.keys_on_hold, m.safe_offset(1)) == (1, 1, 0)


def test_old_consumer_crashes_before_close_and_its_successor_sends_done():
    records = [data(0, 0, b"a"), data(0, 1, b"b"), closing(0, 2, 1, 2, target=1)]
    m = machine(0)
    m.on_record(records[0])
    stored = m.snapshot(0).to_bytes()
    m.on_record(records[1])
    successor = OrderMachine()
    successor.restore(0, Snapshot.from_bytes(stored))
    actions = [action for record in records for action in successor.on_record(record)]
    assert actions == [Process(records[1]), SendDone(K, 1, 1)]


def test_a_repeated_done_changes_nothing():
    m = machine(1)
    m.on_record(opening(1, 0, 2, 1, 0))
    m.on_record(data(1, 1, b"a"))
    assert values(m.on_done(1, K, 1)) == [b"a"]
    assert m.on_done(1, K, 1) == []
    assert values(m.on_record(data(1, 2, b"b"))) == [b"b"]


def test_new_consumer_crashes_in_hold_and_does_not_process_other_keys_twice():
    records = [
        data(1, 0, b"x0", key=b"x"),
        opening(1, 1, 2, 1, 0),
        data(1, 2, b"held"),
        data(1, 3, b"x1", key=b"x"),
        data(1, 4, b"x2", key=b"x"),
    ]
    m = machine(1)
    for record in records[:4]:
        m.on_record(record)
    snapshot = m.snapshot(1)
    assert (snapshot.safe_offset, snapshot.resume_offset, snapshot.unfinished) == (1, 4, {K: 1})
    successor = OrderMachine()
    successor.restore(1, snapshot)
    again = [action for record in records[1:] for action in successor.on_record(record)]
    assert values(again) == [b"x2"]
    assert values(successor.on_done(1, K, 1)) == [b"held"]


def test_a_key_released_in_the_middle_of_a_replay_loses_nothing():
    records = [opening(1, 0, 2, 1, 0), data(1, 1, b"a"), data(1, 2, b"b")]
    m = machine(1)
    for record in records:
        m.on_record(record)
    successor = OrderMachine()
    successor.restore(1, m.snapshot(1))
    successor.on_record(records[0])
    successor.on_record(records[1])
    assert values(successor.on_done(1, K, 1)) == [b"a"]
    third = OrderMachine()
    third.restore(1, successor.snapshot(1))
    assert third.safe_offset(1) == 2
    assert values(successor.on_record(records[2])) == values(third.on_record(records[2])) == [b"b"]


def test_what_the_gateway_wrote_twice_is_processed_once():
    m = machine(0)
    first = [data(0, i, b"%d" % i, sequence=i) for i in range(3)]
    again = [data(0, 3 + i, b"%d" % i, sequence=i) for i in range(5)]
    assert values([a for r in first + again for a in m.on_record(r)]) == [b"0", b"1", b"2", b"3", b"4"]
    assert m.duplicates == 3


def test_lanes_are_numbered_by_themselves():
    m = machine(0)
    records = [data(0, 0, b"a", sequence=9, lane="0"), data(0, 1, b"b", key=b"x", sequence=3, lane="1")]
    assert values([a for r in records for a in m.on_record(r)]) == [b"a", b"b"]


def test_markers_without_numbers_are_ignored_when_repeated():
    m = machine(1)
    m.on_done(1, K, 1)
    assert m.on_record(opening(1, 0, 2, 1, 0)) == []
    m.on_record(opening(1, 1, 2, 1, 0))
    assert values(m.on_record(data(1, 2, b"a"))) == [b"a"]


def test_done_before_open_is_remembered_then_forgotten():
    m = machine(1, done_seconds=60)
    m.on_done(1, K, 1, now=100.0)
    assert m.on_time(150.0) == []
    assert m.on_record(opening(1, 0, 2, 1, 0)) == []
    assert values(m.on_record(data(1, 1, b"a"))) == [b"a"]
    assert m.snapshot(1).dones == {}
    late = machine(1, done_seconds=60)
    late.on_done(1, K, 1, now=100.0)
    late.on_time(161.0)
    late.on_record(opening(1, 0, 2, 1, 0))
    assert late.on_record(data(1, 1, b"a")) == []


def test_a_chain_of_moves_there_and_back():
    """p0 -> p1 -> p0 before anything is handed over: C0 holds set 3 until C1 is done with 2, and C1 until C0 with 1."""
    m = machine(0, 1)
    m.on_record(opening(1, 0, 2, 1, 0))
    m.on_record(data(1, 1, b"b"))
    m.on_record(closing(1, 2, 2, 3, target=0))
    assert values(m.on_record(data(0, 0, b"a"))) == [b"a"]
    assert m.on_record(closing(0, 1, 1, 2, target=1)) == [SendDone(K, 1, 1)]
    m.on_record(opening(0, 2, 3, 2, 1))
    assert m.on_record(data(0, 3, b"c")) == []
    handed = m.on_done(1, K, 1)
    assert values(handed) == [b"b"] and handed[-1] == SendDone(K, 2, 0)
    assert values(m.on_done(0, K, 2)) == [b"c"]
    assert m.keys_on_hold == 0


def test_a_whole_chain_in_one_hold():
    """Sets 2 and 4 wait in one queue: after 2 is through, 4 goes on waiting for 3."""
    m = machine(1)
    m.on_record(opening(1, 0, 2, 1, 0))
    m.on_record(data(1, 1, b"b"))
    m.on_record(closing(1, 2, 2, 3, target=0))
    m.on_record(opening(1, 3, 4, 3, 0))
    m.on_record(data(1, 4, b"d"))
    actions = m.on_done(1, K, 1)
    assert values(actions) == [b"b"] and SendDone(K, 2, 0) in actions
    assert m.safe_offset(1) == 3
    assert values(m.on_done(1, K, 3)) == [b"d"]


def test_an_empty_set_is_forwarded():
    m = machine(1)
    m.on_record(opening(1, 0, 2, 1, 0))
    m.on_record(closing(1, 1, 2, 3, target=2, messages=0))
    assert m.on_done(1, K, 1) == [SendDone(K, 2, 2)]


def test_timeouts():
    fails = machine(1, hold_seconds=5.0)
    fails.on_record(opening(1, 0, 2, 1, 0), now=10.0)
    assert fails.on_time(15.0) == []
    with pytest.raises(StateError, match="nobody has finished set 1"):
        fails.on_time(15.1)
    releases = machine(1, hold_seconds=5.0, on_timeout="release")
    releases.on_record(opening(1, 0, 2, 1, 0), now=10.0)
    releases.on_record(data(1, 1, b"a"))
    alarm, released = releases.on_time(16.0)
    assert isinstance(alarm, Alarm) and alarm.kind == "order_violation"
    assert values([released]) == [b"a"] and releases.order_violations == 1
    assert releases.on_done(1, K, 1) == []
    assert values(releases.on_record(data(1, 2, b"b"))) == [b"b"]


def test_a_chain_waits_as_long_for_each_of_its_sets():
    m = machine(1, hold_seconds=60.0)
    m.on_record(opening(1, 0, 2, 1, 0), now=100.0)
    m.on_record(closing(1, 1, 2, 3, target=0), now=100.0)
    m.on_record(opening(1, 2, 4, 3, 0), now=101.0)
    assert m.on_done(1, K, 1, now=159.0) == [SendDone(K, 2, 0)]
    assert m.on_time(219.0) == []
    with pytest.raises(StateError, match="nobody has finished set 3"):
        m.on_time(219.1)


def at(record, milliseconds):
    return replace(record, timestamp_ms=milliseconds)


def test_what_ended_before_the_group_began_is_not_waited_for():
    """The group reads partition 0 from time 200 on; nobody will ever say that set 1 is done."""
    m = machine(1, 2)
    m.on_record(at(opening(1, 0, 2, 1, source=0), 199))
    m.on_record(data(1, 1, b"a"))
    assert m.on_begin(1, 3, 500) == [], "another partition's beginning"
    assert values(m.on_begin(1, 0, 200)) == [b"a"]
    assert (m.keys_on_hold, m.order_violations, m.safe_offset(1)) == (0, 0, 2)
    successor = OrderMachine()
    successor.restore(1, Snapshot.from_bytes(m.snapshot(1).to_bytes()))
    successor.on_begin(1, 0, 150)  # told again, with less
    other = Record(1, 2, b"x", None, Mark(OPEN, 2, neighbour=1, partition=0).headers(), 199)
    assert successor.on_record(other) == []
    assert values(successor.on_record(data(1, 3, b"x1", key=b"x"))) == [b"x1"], "also those that come later"
    young = Record(1, 4, b"y", None, Mark(OPEN, 2, neighbour=1, partition=0).headers(), 200)
    assert successor.on_record(young) == successor.on_record(data(1, 5, b"y1", key=b"y")) == []
    assert values(successor.on_done(1, b"y", 1)) == [b"y1"], "its hand-over comes"


def test_a_set_in_a_chain_may_have_ended_before_the_group_began():
    m = machine(1)
    m.on_record(opening(1, 0, 2, 1, source=3))
    m.on_record(closing(1, 1, 2, 3, target=0))
    m.on_record(at(opening(1, 2, 4, 3, source=0), 199))
    m.on_record(data(1, 3, b"d"))
    assert m.on_begin(1, 0, 200) == []
    send, process = m.on_done(1, K, 1)
    assert send == SendDone(K, 2, 0) and values([process]) == [b"d"]


def test_a_key_that_waits_long_is_reported_once():
    m = machine(1, alarm_seconds=300.0)
    m.on_record(opening(1, 0, 2, 1, 0), now=10.0)
    m.on_record(closing(1, 1, 2, 3, target=0), now=11.0)
    m.on_record(opening(1, 2, 4, 3, 0), now=12.0)
    assert m.on_time(310.0) == []
    (alarm,) = m.on_time(311.0)
    assert (alarm.kind, alarm.set_id) == ("long_hold", 2) and "301 s" in alarm.text
    assert m.on_time(900.0) == []
    m.on_done(1, K, 1, now=1000.0)
    (alarm,) = m.on_time(1301.0)
    assert (alarm.kind, alarm.set_id) == ("long_hold", 4), "the next set is waited for by itself"


def test_a_lost_message_raises_an_alarm():
    m = machine(1)
    m.on_done(1, K, 1)
    m.on_record(opening(1, 0, 2, 1, 0))
    m.on_record(data(1, 1, b"a"))
    alarm, done = m.on_record(closing(1, 2, 2, 3, target=0, messages=2))
    assert isinstance(alarm, Alarm) and (alarm.kind, alarm.text) == ("count_mismatch", "1 messages arrived of 2")
    assert done == SendDone(K, 2, 0)


def test_state_is_installed_before_the_messages_that_need_it():
    m = machine(1)
    m.on_record(opening(1, 0, 2, 1, 0))
    m.on_record(data(1, 1, b"a"))
    install, process = m.on_done(1, K, 1, state=b"sum=3")
    assert install == Install(K, b"sum=3") and values([process]) == [b"a"]
    early = machine(1)
    early.on_done(1, K, 1, state=b"sum=3")
    restored = OrderMachine()
    restored.restore(1, Snapshot.from_bytes(early.snapshot(1).to_bytes()))
    assert restored.on_record(opening(1, 0, 2, 1, 0)) == [Install(K, b"sum=3")]


def test_large_holds_go_to_disk_and_come_back_in_portions():
    spill = Spill(memory_bytes=1000)
    m = machine(1, spill=spill, drain_limit=10)
    m.on_record(opening(1, 0, 2, 1, 0))
    for offset in range(1, 101):
        m.on_record(data(1, offset, b"%d" % offset))
    assert spill.used_bytes <= 1000 and m.held == 100
    got = values(m.on_done(1, K, 1))
    assert len(got) == 10 and m.busy
    m.on_record(data(1, 101, b"101"))  # overtakes nothing
    while m.busy:
        got += values(m.advance())
    assert got == [b"%d" % i for i in range(1, 102)] and spill.used_bytes == 0
    assert m.safe_offset(1) == 102


def test_open_sets_are_bounded():
    m = machine(0, max_sets=2)
    for i in range(5):
        key = b"%d" % i
        m.on_done(0, key, 1)
        m.on_record(Record(0, i, key, None, Mark(OPEN, 2, neighbour=1, partition=1).headers()))
    assert set(m.snapshot(0).sets) == {b"3", b"4"}


def test_bad_input_is_refused():
    with pytest.raises(ArgumentError, match="on_timeout"):
        OrderMachine(on_timeout="wait")
    with pytest.raises(ArgumentError, match="drain_limit"):
        OrderMachine(drain_limit=0)
    with pytest.raises(FormatError):
        Snapshot.from_bytes(b"{}")
    with pytest.raises(FormatError, match="not a number"):
        Mark.of((("sm.seq", b"one"),))
    with pytest.raises(FormatError, match="incomplete"):
        Mark.of((("sm.flag", b"1"), ("sm.id", b"3")))
    assert Mark.of((("traceparent", b"\xff"),)) == Mark()
