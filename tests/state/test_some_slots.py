"""The state of some slots: what is read without the rest equals what the whole state says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import CheckpointError
from unskew.state import Groups, KeyedState, parts
from unskew.state.compaction import Layout
from unskew.state.files import Piece, PieceWriter
from unskew.state.manifest import Manifest
from unskew.state.piece_store import PieceStore
from unskew.state.some_slots import view_of_slots
from unskew.testing.place import MemoryFiles, MemoryPlace

KEYS, VALUES = pa.schema({"id": pa.int64()}), pa.schema({"n": pa.int64(), "text": pa.string()})
SLOTS = 7
TINY = Layout(rows_per_chunk=16, fan_out=2, spare_rows=4, cleaned_rows=2)


@dataclass(eq=False)
class CountingPlace(MemoryPlace):
    """A disk that notes what is read of it."""

    read_bytes: int = 0
    reads: list[str] = field(default_factory=list)

    def read_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        self.read_bytes += length
        self.reads.append(name)
        return super().read_range(name, offset, length)


class Channel:
    """The state of one channel in files, without a local copy; different keys share hashes if `modulus` is small."""

    def __init__(self, modulus: int = 1 << 40, slots: int = SLOTS, layout: Layout | None = TINY) -> None:
        self.modulus, self.slots, self.layout = modulus, slots, layout
        self.place = CountingPlace()
        self.files, self.manifest, self.commits = MemoryFiles("memory", self.place), None, 0
        self.manifest: Piece | None

    def hashes_of(self, ids: Any) -> Any:
        return np.asarray(ids, np.int64) * 7919 % self.modulus - self.modulus // 2

    def groups_of(self, ids: Any) -> Groups:
        ids = np.unique(np.asarray(ids, np.int64))
        return Groups(self.hashes_of(ids), pa.table({"id": ids}), np.arange(len(ids)))

    def opened(self, writer: PieceWriter | None = None) -> tuple[KeyedState, PieceStore]:
        store = PieceStore(self.files, self.manifest, writer)
        return KeyedState.open(store, KEYS, VALUES, slots=self.slots, deadline="n", layout=self.layout), store

    def commit(self, *steps: tuple[str, list[int]]) -> None:
        """Carry out steps, each with some numbers, and commit."""
        self.commits += 1
        with PieceWriter(self.files, f"state/{self.commits}", "a") as writer:
            state, store = self.opened(writer)
            for what, numbers in steps:
                if what == "put":
                    groups = self.groups_of(numbers)
                    texts = [str(number) * (number % 5) for number in groups.keys["id"].to_pylist()]
                    state.put(groups, pa.table({"n": np.full(len(groups), self.commits), "text": texts}, VALUES))
                elif what == "remove":
                    state.remove(self.groups_of(numbers))
                else:
                    state.extract(slots=np.unique(np.array(numbers, np.int64) % self.slots))
            state.commit(f"c{self.commits}")
        self.manifest = store.manifest

    def log(self) -> Manifest:
        return Manifest.from_bytes(PieceStore(self.files, self.manifest).read_manifest() or b"")

    def part_counts(self) -> list[int]:
        return [cut.places.shape[1] for cut in PieceStore(self.files, self.manifest)._stored.parts.values()]

    def chosen(self, slots: Any, hashes: Any = ()) -> Any:
        return np.isin(np.arange(self.slots), [*slots, *(np.asarray(hashes, np.int64) % self.slots)])

    def selected(self, hashes: Any = (), slots: Any = (), keep: Any = ()) -> pa.Table:
        """Select from the chosen slots alone."""
        store = PieceStore(self.files, self.manifest)
        with view_of_slots(store, KEYS, VALUES, self.chosen(slots, hashes)) as view:
            return view.select(hashes, slots, keep=keep)

    def check(self, hashes: Any, slots: Any, keep: Any) -> None:
        with self.opened()[0] as state:
            expected = state.select(hashes, slots, keep=keep)
        assert in_order(self.selected(hashes, slots, keep)).equals(in_order(expected))

    def check_all_slots(self) -> None:
        """Every slot alone, and all of it together."""
        with self.opened()[0] as state:
            sizes, everything = state.slot_bytes, pa.concat_tables([state.row_schema.empty_table(), *state.scan()])
        found = [self.selected(slots=[slot]) for slot in range(self.slots)]
        assert in_order(pa.concat_tables(found)).equals(in_order(everything))
        store = PieceStore(self.files, self.manifest)
        with view_of_slots(store, KEYS, VALUES, np.arange(self.slots) % 2 == 0) as view:
            assert view.slot_bytes.tolist() == np.where(np.arange(self.slots) % 2, 0, sizes).tolist()


def in_order(rows: pa.Table) -> pa.Table:
    return rows.sort_by([("hash", "ascending"), ("key.id", "ascending")]).combine_chunks()


@pytest.fixture(params=["a part for every row", "parts read in one go", "whole chunks"])
def cutting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Cut small chunks, too."""
    part_bytes = {"a part for every row": 1, "whole chunks": 1 << 20}.get(request.param, 100)
    monkeypatch.setattr(parts, "PART_BYTES", part_bytes)
    monkeypatch.setattr(parts, "GAP_BYTES", 500 if request.param == "parts read in one go" else -1)
    return str(request.param)


IDS = st.lists(st.integers(0, 40), min_size=1, max_size=20)
STEP = st.tuples(st.sampled_from(["put", "put", "put", "remove", "extract"]), IDS)
HASHES = st.lists(st.integers(-12, 12), max_size=3)


@pytest.mark.usefixtures("cutting")
@given(
    commits=st.lists(st.lists(STEP, max_size=3), max_size=12),
    modulus=st.sampled_from([1, 3, 24, 1 << 40]),
    hashes=HASHES,
    slots=st.lists(st.integers(0, SLOTS - 1), max_size=3),
    keep=HASHES,
)
@settings(max_examples=20)
def test_equals_what_the_whole_state_selects(
    commits: list[list[tuple[str, list[int]]]], modulus: int, hashes: list[int], slots: list[int], keep: list[int]
) -> None:
    channel = Channel(modulus)
    for steps in commits:
        channel.commit(*steps)
    channel.check(hashes, slots, keep)
    channel.check(channel.hashes_of([1, 2, 3]), slots, channel.hashes_of([4, 5]))


@pytest.mark.parametrize(("seed", "modulus"), [(0, 1 << 40), (1, 24)])
def test_equals_the_whole_state_while_chunks_are_merged_and_cleaned(seed: int, modulus: int, cutting: str) -> None:
    channel, random, seen = Channel(modulus), np.random.default_rng(seed), set[str]()
    for number in range(40):
        what = random.choice(["put", "remove", "extract"], p=[0.7, 0.2, 0.1])
        numbers = random.choice(3 if what == "extract" else 60, random.integers(1, 3 if what == "extract" else 20))
        channel.commit((str(what), numbers.tolist()))
        log = channel.log()
        seen |= {"cleaned"} if log.cleaned else set()
        seen |= {"removed"} if any(0 < chunk.removed < chunk.rows for chunk in log.chunks) else set()
        seen |= {"several chunks"} if len(log.chunks) > 2 else set()
        seen |= {"shared"} if log.shared else set()
        seen |= {"parts"} if max(channel.part_counts(), default=1) > 2 else set()
        if number % 5 == 4:
            channel.check_all_slots()
    expected = {"cleaned", "removed", "several chunks"} | ({"shared"} if modulus == 24 else set())
    assert seen == expected | ({"parts"} if cutting != "whole chunks" else set())


def test_a_state_that_was_written_under_other_slots_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 100)
    channel = Channel()
    channel.commit(("put", list(range(40))))
    channel.slots = 5
    channel.check_all_slots()


def test_a_channel_without_state_has_nothing_in_any_slot() -> None:
    assert Channel().selected(hashes=[1], slots=[2]).num_rows == 0


@pytest.fixture(scope="module")
def large() -> Channel:
    """200,000 keys in 4,096 slots, after batches that touched some of them."""
    channel, random = Channel(slots=4096, layout=None), np.random.default_rng(0)
    for _ in range(4):
        channel.commit(("put", random.choice(200_000, 80_000, replace=False).tolist()))
    channel.commit(("remove", random.choice(200_000, 10_000, replace=False).tolist()))
    return channel


def test_one_slot_of_many_reads_a_small_share(large: Channel) -> None:
    assert len(large.log().chunks) >= 5
    place = large.place
    place.read_bytes, place.reads = 0, []
    state, _ = large.opened()
    expected, whole = state.select(slots=[77]), place.read_bytes
    place.read_bytes, place.reads = 0, []
    rows = large.selected(slots=[77])
    assert in_order(rows).equals(in_order(expected)) and rows.num_rows > 20
    assert place.read_bytes < whole / 10
    assert len(place.reads) <= 1 + 2 * len(large.log().chunks)  # live rows and removed ones


def test_slots_that_lie_close_take_one_read_a_chunk(large: Channel) -> None:
    large.place.reads = []
    rows = large.selected(slots=range(0, 4096, 100))
    assert rows.num_rows > 500
    assert len(large.place.reads) <= 1 + 2 * len(large.log().chunks)


def test_a_small_chunk_is_not_cut() -> None:
    channel = Channel(slots=4096, layout=None)
    channel.commit(("put", list(range(1000))))
    assert channel.part_counts() == []


def test_one_flipped_bit_is_told_where_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """In every part that is read; a part that is not read does no harm."""
    monkeypatch.setattr(parts, "PART_BYTES", 200)
    monkeypatch.setattr(parts, "GAP_BYTES", 0)
    channel = Channel(layout=None)
    channel.commit(("put", list(range(60))))
    (piece,) = PieceStore(channel.files, channel.manifest)._stored.chunks.values()
    (cut,) = PieceStore(channel.files, channel.manifest)._stored.parts.values()
    expected, sound = channel.selected(slots=[3]), channel.place.contents[piece.file]
    read = {part.start for run in cut.runs(channel.chosen([3])) for part in run}
    (all_parts,) = cut.runs(channel.chosen(range(SLOTS)))
    assert 0 < len(read) < len(all_parts)
    for part in all_parts:
        for bit in np.linspace(0, 8 * part.length - 1, 20).astype(int).tolist():
            damaged = bytearray(sound)
            damaged[piece.offset + part.start + bit // 8] ^= 1 << bit % 8
            channel.place.contents[piece.file] = bytes(damaged)
            if part.start in read:
                with pytest.raises(CheckpointError, match=f"checksum .*memory/{piece.file}, bytes"):
                    channel.selected(slots=[3])
            else:
                assert channel.selected(slots=[3]).equals(expected)
            with pytest.raises(CheckpointError, match=f"memory/{piece.file}"):
                channel.opened()
