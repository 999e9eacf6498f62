"""EXTRACT: the same parcels whether the machine has a copy of the channel's state or not, and what is read for them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from unskew.operators import Aggregate
from unskew.routing.moves import Moves
from unskew.runtime.extract import Extract
from unskew.runtime.orders import Order
from unskew.runtime.site import Site
from unskew.runtime.wire import unpack
from unskew.state import Groups
from unskew.state.files import Piece, PieceWriter
from unskew.testing.place import MemoryFiles, MemoryPlace

SLOTS, KEYS = 4096, 200_000
OPERATOR = Aggregate(n="count").bind(pa.schema({"key": pa.int64()}), ("key",))
HASHES = np.random.default_rng(7).integers(-(1 << 62), 1 << 62, KEYS)


@dataclass(eq=False)
class CountingPlace(MemoryPlace):
    """A disk that notes what is read of it."""

    lengths: list[int] = field(default_factory=list)

    def read_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        self.lengths.append(length)
        return super().read_range(name, offset, length)


@dataclass(eq=False)
class World:
    """A channel's state in a checkpoint, and machines with copies of it or without."""

    folder: Path
    place: CountingPlace
    manifests: list[Piece]

    def site(self, machine: str) -> Site:
        files, folder = MemoryFiles("memory", self.place), str(self.folder / machine)
        return Site(files, "query", OPERATOR, SLOTS, 1 << 30, folder)

    def put(self, machine: str, ids: np.ndarray) -> None:
        site, batch = self.site(machine), len(self.manifests)
        with PieceWriter(site.files, f"state/{batch}", "a") as writer:
            order = Order(0, self.manifests[-1] if self.manifests else None)
            state, store = site.open(order, writer)
            groups = Groups(HASHES[ids], pa.table({"key": ids}), np.arange(len(ids)))
            columns = {name: np.full(len(ids), batch) for name in OPERATOR.value_schema.names}
            state.put(groups, pa.table(columns).cast(OPERATOR.value_schema))
            state.commit(f"n{batch}")
        assert store.manifest is not None
        self.manifests.append(store.manifest)

    def extract(self, machine: str, moves: Moves, listed: np.ndarray) -> list[pa.RecordBatch]:
        self.place.lengths.clear()
        order = Order(0, self.manifests[-1], moves, listed)
        return list(Extract(self.site(machine), np.array([0, 0, 1], np.int32))(order))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("machines"), CountingPlace(), [])
    for ids in np.array_split(np.arange(KEYS), 4):
        world.put("behind", ids)
    world.put("current", np.arange(0, KEYS, 10))
    return world


def moves_of(slots: dict[int, int], keys: dict[int, int]) -> Moves:
    """Return moves of slots and keys from channel 0 to the channels said."""
    places = [np.array([*what], kind) for what, kind in ((slots, np.int32), (keys, np.int64))]
    targets = [np.array([*what.values()], np.int32) for what in (slots, keys)]
    return Moves(places[0], 0 * targets[0], targets[0], places[1], 0 * targets[1], targets[1])


def test_parcels_are_the_same_from_a_copy_and_from_the_checkpoint(world: World) -> None:
    slots = {17: 1, 18: 2, 4000: 1}
    inside = HASHES[np.isin(HASHES % SLOTS, list(slots))]
    key, stays = int(HASHES[5]), inside[:3]
    moves = moves_of(slots, {key: 2, int(inside[3]): 1})
    listed = np.append(stays, [key, inside[3]])
    copied = world.extract("current", moves, listed)
    assert len(world.place.lengths) == 1  # the manifest
    for machine in ("nothing there", "behind"):
        assert world.extract(machine, moves, listed) == copied
        assert len(world.place.lengths) > 1
    assert [parcel["channel"].to_pylist() for parcel in copied] == [[1], [2]]
    moved = np.concatenate([unpack(parcel["blob"][0].as_buffer())["hash"].to_numpy() for parcel in copied])
    assert sorted(moved) == sorted([key, *inside[3:]])


def test_a_copy_that_lacks_chunks_is_not_filled_up_to_move_a_slot(world: World) -> None:
    site, moves, few = world.site("little memory"), moves_of({17: 1}, {}), np.empty(0, np.int64)
    world.place.lengths.clear()
    state, _ = site.open(Order(0, world.manifests[-1], memory_bytes=1 << 20))
    whole = sum(world.place.lengths)
    state.release()
    copied = world.extract("current", moves, few)
    assert world.extract("little memory", moves, few) == copied
    assert sum(world.place.lengths) < whole / 8


def test_a_machine_without_a_copy_reads_little_to_move_little(world: World) -> None:
    world.place.lengths.clear()
    state, _ = replace(world.site("reader"), cache_bytes=0).open(Order(0, world.manifests[-1]))
    whole = sum(world.place.lengths)
    assert state.rows == KEYS
    key = int(HASHES[5])
    for moves in (moves_of({17: 1}, {}), moves_of({}, {key: 1})):
        (parcel,) = world.extract("new here", moves, np.array([key]))
        assert sum(world.place.lengths) < whole / 8
        hashes = unpack(parcel["blob"][0].as_buffer())["hash"].to_numpy()
        assert hashes.tolist() == ([key] if len(moves.keys) else sorted(HASHES[HASHES % SLOTS == 17]))
    assert not list((world.folder / "new here").rglob("*.arrow"))
