"""Schedules that broke drafts of the runtime, one test each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from schedule_operators import Ledger
from schedule_query import Query, hash_of, rows_of
from schedule_troubles import Shared
from schedule_world import SLOTS, check_files

from unskew.errors import CheckpointError, FencedError, FormatError
from unskew.operators import Aggregate
from unskew.planners import Planner, planner
from unskew.routing import RoutingTable
from unskew.runtime.jobs import Work
from unskew.runtime.log import RecordLog
from unskew.runtime.route import parcels
from unskew.runtime.wire import STATE
from unskew.state.chunks import Columns
from unskew.state.piece_store import PieceStore
from unskew.testing.told import Told

COUNT = Aggregate(n="count")
FLOATS = Aggregate(n="count", sum="sum(part)")
TABLE = RoutingTable.initial(2, SLOTS)


def keys_of(channel: int, count: int, table: RoutingTable = TABLE) -> list[str]:
    """Return keys that a channel owns."""
    names = (f"k{number}" for number in range(1000))
    return [name for name in names if table.lookup([hash_of(name)])[0] == channel][:count]


def counts(rows: list[dict[str, object]]) -> dict[object, object]:
    """Return the count of each key."""
    return {row["key"]: row["n"] for row in rows}


@dataclass(frozen=True)
class MoveSlot(Planner):
    """Gives one slot to another channel."""

    slot: int
    to: int
    tolerance: float = 0.0

    def slots(self, table: RoutingTable, channels: int) -> np.ndarray:
        return np.where(np.arange(len(table.slots)) == self.slot, self.to, table.slots).astype(np.int32)

    def assign(self, problem, memory):  # type: ignore[no-untyped-def]
        return planner("keep").assign(problem, memory)


def test_a_batch_found_committed_is_not_run_again_but_its_rows_flow() -> None:
    query = Query(COUNT)
    query.start().run(0, rows_of("a", "b"))
    again = query.start()
    jobs = again.run(0, rows_of("a", "b"))
    assert (jobs.drained, again.tasks, len(query.shown[0])) == (1, [], 1)
    again.run(1, rows_of("a"))
    assert counts(query.shown[1][0]) == {"a": 2}


def test_a_kill_between_our_commit_and_sparks_brings_the_batch_again() -> None:
    query = Query(Ledger())
    query.start().run(0, rows_of("a", "a"), dies="after create commit/0")
    again = query.start()
    assert again.run(0, rows_of("a", "a")).drained == 1
    again.run(1, rows_of("a"))
    assert len(query.shown[0]) == 1
    assert query.shown[1][0][0]["old_secret"] == query.shown[0][0][0]["secret"]


def test_a_batch_found_prepared_is_not_run_again_but_its_rows_flow_and_the_sink_gets_them() -> None:
    query = Query(COUNT)
    query.start().run(0, rows_of("a", "b"), dies="after create prepared/0")
    assert query.shown == {} and not query.log.is_committed(0)
    again = query.start()
    jobs = again.run(0, rows_of("a", "b"))
    assert (jobs.drained, again.tasks, query.log.is_committed(0)) == (1, [], True)
    assert counts(query.shown[0][0]) == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("dies", "folder"), [("after create prepared/1", "prepared"), ("after create commit/1", "commit")]
)
def test_a_recorded_batch_that_comes_with_other_rows_is_refused(dies: str, folder: str) -> None:
    """Somebody removed offsets/1 of the checkpoint, so that Spark planned the batch anew."""
    query = Query(COUNT)
    first = query.start()
    first.run(0, rows_of("a"))
    first.run(1, rows_of("a"), dies=dies)
    before = dict(query.contents)
    with pytest.raises(CheckpointError, match=f"memory/{folder}/1.*offsets/1"):
        query.start().run(1, rows_of("a", "b"), fingerprint="another")
    assert {name for name in query.contents if name not in before} == {"epochs/2"}


@pytest.mark.parametrize("batch_id", [2, 7])
def test_a_gap_is_refused(batch_id: int) -> None:
    query = Query(COUNT)
    query.start().run(0, rows_of("a"))
    with pytest.raises(CheckpointError, match=f"batch {batch_id}, but batch 1 is not committed .*memory/commit/1"):
        query.start().run(batch_id, rows_of("a"))


def test_a_batch_long_committed_is_refused() -> None:
    query = Query(COUNT)
    first = query.start(records=1)
    for number in range(3):
        first.run(number, rows_of("a"))
    query.log.forget(2, 1)
    with pytest.raises(CheckpointError, match=r"batch 0, but batch 2 is committed already \(in memory/commit\)"):
        query.start().run(0, rows_of("a"))


def test_a_replay_under_another_table_gives_the_recorded_float_sums() -> None:
    """The parts of a split key add up to something else in another order: the record decides."""
    values = np.random.default_rng(1).lognormal(0.0, 5.0, 99).tolist()
    rows = rows_of(*["hot"] * 99, "a", parts=[*values, 1.0])
    query = Query(FLOATS, channels=3)
    query.start(split=True).run(0, rows, dies="after create prepared/0")
    record = query.record(0)
    assert list(record.table.split) == [hash_of("hot")]
    recorded = query.rows_in(record.output)
    query.channels = 1
    query.start(planner("mixed")).run(0, rows)
    assert query.shown[0] == [recorded]
    other = Query(FLOATS, channels=1)
    other.start().run(0, rows)
    assert sorted(map(str, other.shown[0][0])) != sorted(map(str, recorded)), "anew it would be another sum"


def test_a_function_with_randomness_gives_its_recorded_rows_again() -> None:
    query = Query(Ledger())
    query.start().run(0, rows_of("a", "b", "a"), dies="before sink 0")
    recorded = query.rows_in(query.record(0).output)
    query.start().run(0, rows_of("a", "b", "a"), dies="after sink 0")
    again = query.start()
    again.run(0, rows_of("a", "b", "a"))
    assert query.shown[0] == [recorded, recorded]
    again.run(1, rows_of("a"))
    assert [row["old_secret"] for row in query.shown[1][0]] == [row["secret"] for row in recorded if row["key"] == "a"]


@pytest.mark.parametrize("tracked_keys", [None, 1, 0], ids=["all counted", "heaviest counted", "none counted"])
def test_a_candidate_of_a_split_key_without_rows_tells_its_part(tracked_keys: int | None) -> None:
    """One row of the key comes in a batch whose other rows are on the same channel; the key need not be counted."""
    for other in keys_of(0, 4):
        query = Query(COUNT, channels=3)
        first = query.start(split=True)
        first.run(0, rows_of(*["hot"] * 9))
        assert query.keys_held(0) == {channel: ["hot"] for channel in range(3)}
        query.log.ask(channels=2)
        query.start(split=True, tracked_keys=tracked_keys).run(1, rows_of("hot", *[other] * 9))
        assert counts(query.shown[1][0]) == {"hot": 10, other: 9}
        assert query.record(1).table.channels == 2


def test_a_slot_that_moves_leaves_the_parts_of_its_split_key_where_they_are() -> None:
    slot = hash_of("hot") % SLOTS
    mate = next(f"k{n}" for n in range(1000) if hash_of(f"k{n}") % SLOTS == slot)
    owner = int(TABLE.slots[slot])
    other = next(key for key in keys_of(owner, 100) if hash_of(key) % SLOTS != slot)
    query = Query(COUNT)
    first = query.start(split=True)
    first.run(0, rows_of(*["hot"] * 9, mate))
    first = query.start(MoveSlot(slot, 1 - owner), split=True)
    first.run(1, rows_of(*["hot"] * 9, other))
    table = query.record(1).table
    assert table.slots[slot] == 1 - owner and hash_of("hot") in table.split
    assert query.keys_held(1) == {owner: sorted(["hot", other]), 1 - owner: sorted(["hot", mate])}
    first.run(2, rows_of("hot", mate))
    assert counts(query.shown[1][0]) == {"hot": 18, other: 1}
    assert counts(query.shown[2][0]) == {"hot": 19, mate: 2}


def test_a_channel_that_loses_keys_forgets_them_though_it_has_no_rows() -> None:
    left, right = keys_of(0, 1)[0], keys_of(1, 1)[0]
    query = Query(Ledger())
    query.start(Told(TABLE)).run(0, rows_of(left, right))
    query.start(Told(TABLE.with_explicit([hash_of(left)], [1]))).run(1, rows_of(right))
    assert query.keys_held(0) == {0: [left], 1: [right]}
    assert query.keys_held(1) == {1: sorted([left, right])}


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("partitions", [0, 1, 2])
def test_an_empty_batch_gets_records(empty: bool, partitions: int) -> None:
    query = Query(Ledger("processing"))
    first = query.start()
    first.run(0, rows_of("a"), time_ms=1000)
    nothing = [rows_of()] * partitions
    first.run(1, *nothing, time_ms=2000, empty=empty)
    assert query.log.is_committed(1) and query.shown[1] == [[]]
    assert query.record(1).channels == query.record(0).channels
    first.run(2, *nothing, time_ms=9000, empty=empty)
    assert [row["old_secret"] for row in query.shown[2][0]] == [query.shown[0][0][0]["secret"]], "its time has come"
    assert query.keys_held(2) == {}


@pytest.mark.parametrize("how", [{"min_gain": -np.inf}, {"min_gain": 0.02}, {"when": "ahead"}])
def test_a_batch_without_partitions_carries_its_orders(how: dict[str, object]) -> None:
    """No task reads rows, so none could take orders along: but the state has to move to fewer channels."""
    query = Query(COUNT, channels=3)
    first = query.start(**how)
    first.run(0, rows_of(*"abcdef"))
    query.log.ask(channels=1)
    first.run(1)
    assert query.record(1).table.channels == 1
    assert query.keys_held(1) == {0: list("abcdef")}
    first.run(2, rows_of(*"abcdef"))
    assert counts(query.shown[2][0]) == dict.fromkeys("abcdef", 2)


def test_a_channel_that_is_not_called_keeps_its_state() -> None:
    left, right = keys_of(0, 1)[0], keys_of(1, 1)[0]
    query = Query(Ledger())
    first = query.start()
    first.run(0, rows_of(left, right))
    first.run(1, rows_of(left))
    before, after = query.record(0).channels, query.record(1).channels
    assert after[1] == before[1] and after[0] != before[0]
    first.run(2, rows_of(right))
    assert query.shown[2][0][0]["rows"] == 2


def pieces(query: Query, batch_id: int) -> Iterator[tuple[str, int, int]]:
    """Yield what a record names: file, offset and length, of manifests, chunks and output."""
    record = query.record(batch_id)
    for kept in record.channels.values():
        store = PieceStore(query.log.files, kept.manifest)
        for piece in (kept.manifest, *store._stored.chunks.values()):
            yield piece.file, piece.offset, piece.length
    for piece in record.output.pieces:
        yield piece.file, piece.offset, piece.length


def flipped(data: bytes, bit: int) -> bytes:
    """Return bytes with one bit flipped."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def prepared_query() -> Query:
    """Return a query whose second batch is recorded, not committed; its output is in files."""
    query = Query(COUNT)
    first = query.start(inline_bytes=0)
    first.run(0, rows_of("a", "b", "c", "d"))
    first.run(1, rows_of("a", "c"), dies="after create prepared/1")
    return query


def test_one_flipped_bit_in_a_piece_is_an_error_that_names_the_file() -> None:
    """In any chunk, manifest or output, at forty places of each: never a wrong value."""
    query = prepared_query()
    found = list(pieces(query, 1))
    assert {name.split("/")[0] for name, _, _ in found} == {"state", "output"}
    for file, offset, length in found:
        for bit in np.linspace(8 * offset, 8 * (offset + length) - 1, 40).astype(int).tolist():
            damaged = Query(COUNT, shared=Shared(query.contents | {file: flipped(query.contents[file], bit)}))
            start = damaged.start()
            with pytest.raises(CheckpointError, match=f"memory/{file}"):
                start.run(1, rows_of("a", "c"))
                start.run(2, rows_of("a", "b", "c", "d"))


def test_one_flipped_bit_in_a_record_is_an_error_that_names_the_file() -> None:
    query = prepared_query()
    data = query.contents["prepared/1"]
    for bit in np.linspace(0, 8 * len(data) - 1, 200).astype(int).tolist():
        damaged = Query(COUNT, shared=Shared(query.contents | {"prepared/1": flipped(data, bit)}))
        with pytest.raises((CheckpointError, FormatError), match="memory/prepared/1"):
            damaged.start().run(1, rows_of("a", "c"))
        assert damaged.shown == {}


def test_a_missing_file_is_an_error_that_names_it() -> None:
    query = prepared_query()
    files = {file for file, _, _ in pieces(query, 1)}
    for file in files:
        others = {name: data for name, data in query.contents.items() if name != file}
        start = Query(COUNT, shared=Shared(others)).start()
        with pytest.raises(CheckpointError, match=f"does not exist .*memory/{file}"):
            start.run(1, rows_of("a", "c"))
            start.run(2, rows_of("a", "b", "c", "d"))


def test_a_missing_record_is_an_error_that_names_it() -> None:
    query = Query(COUNT)
    query.start().run(0, rows_of("a"))
    del query.contents["prepared/0"]
    with pytest.raises(CheckpointError, match="memory/prepared/0"):
        query.start().run(1, rows_of("a"))


def test_one_flipped_bit_in_a_mark_is_an_error_that_names_the_file() -> None:
    """Also one that leaves bytes which are not text."""
    query = Query(COUNT)
    query.start().run(0, rows_of("a"), dies="after create commit/0")
    data = query.contents["commit/0"]
    for bit in range(8 * len(data)):
        damaged = Query(COUNT, shared=Shared(query.contents | {"commit/0": flipped(data, bit)}))
        with pytest.raises(CheckpointError, match="memory/commit/0"):
            damaged.start().run(0, rows_of("a"))


def test_a_missing_mark_is_an_error_that_names_it() -> None:
    query = Query(COUNT)
    first = query.start()
    for number in range(2):
        first.run(number, rows_of("a"))
    del query.contents["commit/1"]
    with pytest.raises(CheckpointError, match=r"batch 2, but batch 1 is not committed .*memory/commit/1"):
        query.start().run(2, rows_of("a"))


@pytest.mark.parametrize("moment", ["before create commit/1", "before create prepared/1", "before sink 1"])
def test_a_new_driver_goes_on_and_sweeps_while_the_old_one_is_about_to_write(moment: str) -> None:
    """The old one has just seen that it is the newest. What it writes then is swept the next time."""
    query = Query(Ledger())
    old, new = query.start(records=1), query.start(records=1)

    def take_over() -> None:
        for number in range(1, 5):
            new.run(number, rows_of("a", "b"))
        query.log.forget(4, 1)

    old.run(0, rows_of("a", "b"))
    old.gate.meanwhile[moment] = take_over
    with pytest.raises(FencedError):
        old.run(1, rows_of("a", "b"))
        old.run(2, rows_of("a", "b"))
    assert all(given == shown[0] for shown in query.shown.values() for given in shown)
    newest = query.start(records=1)
    newest.run(5, rows_of("a"))
    chain = [row for number in range(6) for row in query.shown[number][0] if row["key"] == "a"]
    assert [row["old_secret"] for row in chain[1:]] == [row["secret"] for row in chain[:-1]]
    query.log.forget(5, 1)
    check_files(query.log, query.contents)


@pytest.mark.parametrize(("replaced", "error"), [(True, FencedError), (False, FileNotFoundError)])
def test_a_sink_that_fails_because_another_driver_cleaned_up_says_so(replaced: bool, error: type[Exception]) -> None:
    """A driver paused in its sink found the folder gone that it was writing to, and blamed the disk."""
    query = Query(COUNT)
    old, new = query.start(), query.start()

    def fail() -> None:
        if replaced:
            new.run(1, rows_of("a"))
        raise FileNotFoundError("out/_unskew/1-nonce/_temporary/0 does not exist")

    old.run(0, rows_of("a"))
    old.gate.meanwhile["before sink 1"] = fail
    with pytest.raises(error):
        old.run(1, rows_of("a"))


def test_an_old_driver_sweeps_while_a_new_one_runs() -> None:
    """What the new one has written, and what its records name, stays."""
    query = Query(Ledger())
    old, new = query.start(records=1), query.start(records=1)
    old.run(0, rows_of("a", "b"))
    for moment in ("before create prepared/1", "after create prepared/1", "before create commit/2"):
        new.gate.meanwhile[moment] = lambda: old.engine.log.forget(old.engine._committed, 1)
    new.run(1, rows_of("a"))
    new.run(2, rows_of("b"))
    assert [row["rows"] for row in query.shown[2][0]] == [2]
    assert sorted(key for keys in query.keys_held(2).values() for key in keys) == ["a", "b"]


class Unfenced(RecordLog):
    """Somebody who has looked for later starts just before there was one."""

    def check_epoch(self, epoch: int) -> None:
        pass


@pytest.mark.parametrize("quicker", ["old", "new"])
def test_of_two_drivers_that_prepare_a_batch_one_wins(quicker: str) -> None:
    query = Query(Ledger())
    old, new = query.start(log=Unfenced), query.start()
    old.run(0, rows_of("a"))
    slow, quick = (new, old) if quicker == "old" else (old, new)
    slow.gate.meanwhile["before create prepared/1"] = lambda: quick.run(1, rows_of("a")) and None
    with pytest.raises(FencedError, match="has recorded batch 1"):
        slow.run(1, rows_of("a"))
    assert len(query.shown[1]) == 1
    last = query.start()
    last.run(1, rows_of("a"))
    last.run(2, rows_of("a"))
    chain = [query.shown[number][0][0] for number in range(3)]
    assert [row["old_secret"] for row in chain[1:]] == [row["secret"] for row in chain[:-1]]


@pytest.mark.parametrize("partitions", [(rows_of("a", "c"),), (rows_of(),)])
@pytest.mark.parametrize("dies", [None, "after channels", "after create prepared/0"])
def test_state_to_begin_with_arrives_once(partitions: tuple[pa.Table, ...], dies: str | None) -> None:
    query = Query(COUNT)
    known = pa.table({"key": ["a", "b"]})
    values = pa.table({"n": pa.array([10, 20])}).rename_columns(query.operator.value_schema.names)
    hashes = np.array([hash_of("a"), hash_of("b")])
    held = pa.Table.from_batches(
        [Columns.of(query.operator.key_schema, query.operator.value_schema).make_rows(hashes, known, values)]
    )

    def initial(work: Work) -> list[pa.RecordBatch]:
        owners = work.route.table.lookup(hashes)
        return [parcels(held, owners, work.route.task_of, -1, 0, kind=STATE)]

    if dies is not None:
        query.start().run(0, *partitions, dies=dies, initial=initial)
    last = query.start()
    last.run(0, *partitions, initial=initial)
    assert counts(query.shown[0][-1]) == ({"a": 11, "c": 1} if partitions[0].num_rows else {})
    last.run(1, rows_of("a", "b"))
    assert counts(query.shown[1][0]) == {"a": 11 + (partitions[0].num_rows > 0), "b": 21}


def test_a_sweep_that_is_killed_leaves_nothing_for_ever() -> None:
    """Killed between a record and its mark, the mark was never looked at again."""
    query = Query(COUNT)
    first = query.start(records=1)
    for number in range(4):
        first.run(number, rows_of("a"))
    first.gate.meanwhile["before remove commit/1"] = lambda: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        first.engine.log.forget(3, 1)
    query.log.forget(3, 1)
    check_files(query.log, query.contents)


class Late(dict):  # type: ignore[type-arg]
    """Files of which a listing does not show some yet."""

    hidden: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[str]:
        return (name for name in super().__iter__() if not name.startswith(self.hidden or ("?",)))


@pytest.mark.parametrize("hidden", [("prepared/3",), ("prepared/2", "prepared/3"), ("prepared/",), ("state/3/",)])
def test_a_sweep_whose_listing_is_late_removes_nothing_that_is_needed(hidden: tuple[str, ...]) -> None:
    query = Query(COUNT, shared=Shared(Late()))
    first = query.start()
    for number in range(4):
        first.run(number, rows_of("a", "b", "c"))
    query.contents["state/3/of-a-failed-attempt"] = b""
    assert isinstance(query.contents, Late)
    query.contents.hidden = hidden
    query.log.forget(3, 2)
    query.contents.hidden = ()
    query.log.forget(3, 2)
    check_files(query.log, query.contents)


@pytest.mark.parametrize("hidden", [("commit/1",), ("commit/0", "commit/1"), ("commit/", "epochs/", "prepared/")])
def test_a_start_whose_listing_is_late_goes_on_after_the_last_batch(hidden: tuple[str, ...]) -> None:
    query = Query(COUNT, shared=Shared(Late()))
    first = query.start()
    first.run(0, rows_of("a"))
    first.run(1, rows_of("a"))
    assert isinstance(query.contents, Late)
    query.contents.hidden = hidden
    query.start().run(2, rows_of("a"))
    assert counts(query.shown[2][0]) == {"a": 3}
    with pytest.raises(FencedError):
        first.run(2, rows_of("a"))


def test_what_a_reader_has_pinned_is_not_swept_until_the_reader_is_long_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(COUNT)
    driver = query.start(records=1)
    driver.run(0, rows_of("a"))
    record = query.record(0)
    named = {name for channel in record.channels.values() for name in channel.files}
    query.log.pin(record)
    for batch_id in (1, 2):
        driver.run(batch_id, rows_of("a"))
        query.log.forget(batch_id, 1)
    assert query.log.read(0) is None
    assert named <= query.contents.keys()
    monkeypatch.setattr("unskew.runtime.log.BATCHES_PINNED", 2)
    query.log.forget(2, 1)
    assert not named & query.contents.keys()
    assert not query.log.files.names("pins")


def test_a_wish_is_not_lost_when_somebody_else_wishes_at_the_same_time() -> None:
    query = Query(COUNT, shared=Shared(Late()))
    assert isinstance(query.contents, Late)
    query.log.ask(channels=3)
    query.contents.hidden = ("requests/",)
    query.log.ask(memory_bytes=[100])
    query.contents.hidden = ()
    assert query.log.requests()[1] == {"channels": 3, "memory_bytes": [100]}
    assert json.loads(query.contents["requests/1"]) == {"channels": 3}
