"""The local cache: what is trusted, who may have it, and what goes when there is no room."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from unskew.errors import ArgumentError, CheckpointError
from unskew.state import CachePlace, Groups, KeyedState, LocalCache, MemoryStore
from unskew.state import file_entry as file_entry_module
from unskew.state.manifest import Manifest

KEYS, VALUES = pa.schema({"id": pa.int64()}), pa.schema({"n": pa.int64()})
PLENTY = 1 << 30


class CountingStore(MemoryStore):
    """A store that counts how often chunks are read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def read_chunk(self, sequence: int) -> bytes:
        self.reads += 1
        return super().read_chunk(sequence)


def groups_of(ids: range) -> Groups:
    hashes = np.array(ids, np.int64) * 7919
    return Groups(hashes, pa.table({"id": pa.array(ids, pa.int64())}), np.arange(len(ids)))


def opened(store: MemoryStore, place: CachePlace | None) -> KeyedState:
    return KeyedState.open(store, KEYS, VALUES, slots=8, cache=place)


def commit(store: MemoryStore, place: CachePlace | None, ids: range, value: int, nonce: str) -> None:
    with opened(store, place) as state:
        state.put(groups_of(ids), pa.table({"n": np.full(len(ids), value)}))
        state.commit(nonce)


def contents(store: MemoryStore, place: CachePlace | None) -> dict[int, int]:
    with opened(store, place) as state:
        tables = list(state.scan())
        rows = {
            key: n
            for rows in tables
            for key, n in zip(*(rows[c].to_pylist() for c in ("key.id", "value.n")), strict=True)
        }
        state.commit("unused")  # nothing has changed: the copy goes back as it was
    return rows


def names(cache: LocalCache, *, private: bool = False) -> list[str]:
    return sorted(listed.nonce for listed in cache.listing() if listed.private == private)


def test_a_copy_of_the_last_commit_spares_the_store(tmp_path: Path) -> None:
    store, place = CountingStore(), LocalCache(tmp_path, PLENTY).place("checkpoint", 0)
    commit(store, place, range(100), 1, "a")
    commit(store, place, range(50), 2, "b")
    assert contents(store, place) == dict.fromkeys(range(50), 2) | dict.fromkeys(range(50, 100), 1)
    assert store.reads == 0
    assert names(place.cache) == ["b"]


def test_a_copy_that_is_behind_reads_only_what_came_since(tmp_path: Path) -> None:
    store = CountingStore()
    here, there = (LocalCache(tmp_path / name, PLENTY).place("checkpoint", 0) for name in ("here", "there"))
    commit(store, here, range(3000), 1, "a")
    commit(store, there, range(10), 2, "b")
    with opened(store, there) as state:
        state.remove(groups_of(range(5, 15)))
        state.commit("c")
    store.reads = 0
    assert contents(store, here) == dict.fromkeys(range(5), 2) | dict.fromkeys(range(15, 3000), 1)
    assert store.reads == 2


def test_a_copy_of_a_commit_that_came_to_nothing_is_not_trusted(tmp_path: Path) -> None:
    store, place = CountingStore(), LocalCache(tmp_path, PLENTY).place("checkpoint", 0)
    commit(store, place, range(3000), 1, "a")
    commit(store.copy(), place, range(10), 2, "lost")
    assert names(place.cache) == ["lost"]
    assert contents(store, place) == dict.fromkeys(range(3000), 1)
    assert store.reads == 0  # the chunk of the first commit is still there
    commit(store, place, range(10), 3, "b")
    assert contents(store, place) == dict.fromkeys(range(10), 3) | dict.fromkeys(range(10, 3000), 1)


def test_attempts_at_the_same_batch_do_not_disturb_each_other(tmp_path: Path) -> None:
    store, place = MemoryStore(), LocalCache(tmp_path, PLENTY).place("checkpoint", 0)
    commit(store, place, range(100), 1, "a")
    zombie_store, later_store = store.copy(), store.copy()
    zombie, later = opened(zombie_store, place), opened(later_store, place)
    zombie.put(groups_of(range(200)), pa.table({"n": np.full(200, 2)}))
    later.put(groups_of(range(10)), pa.table({"n": np.full(10, 3)}))
    later.commit("b")
    zombie.commit("zombie")
    expected = dict.fromkeys(range(10), 3) | dict.fromkeys(range(10, 100), 1)
    assert contents(later_store, place) == expected
    assert contents(later_store, None) == expected
    assert names(place.cache, private=True) == []


def test_channels_and_checkpoints_have_their_own_entries(tmp_path: Path) -> None:
    cache = LocalCache(tmp_path, PLENTY)
    places = [cache.place("x", 0), cache.place("x", 1), cache.place("y", 0)]
    stores = [CountingStore() for _ in places]
    for number, (store, place) in enumerate(zip(stores, places, strict=True)):
        commit(store, place, range(10), number, "same-nonce")
    for number, (store, place) in enumerate(zip(stores, places, strict=True)):
        assert contents(store, place) == dict.fromkeys(range(10), number)
    assert sum(store.reads for store in stores) == 0


def test_the_least_recently_used_entry_goes_first(tmp_path: Path) -> None:
    stores = [CountingStore() for _ in range(4)]
    sizes = []
    for channel, store in enumerate(stores):
        cache = LocalCache(tmp_path, PLENTY)
        commit(store, cache.place("x", channel), range(100), channel, f"of-{channel}")
        sizes.append(next(listed.size for listed in cache.listing() if listed.channel == channel))
    small = LocalCache(tmp_path, sum(sizes) - 1)
    hours_ago = {0: 2, 1: 9, 2: 3}
    for listed in list(small.listing()):
        long_ago = time.time() - 3600 * hours_ago.get(listed.channel, 0)
        os.utime(listed.path, (long_ago, long_ago))
    commit(stores[3], small.place("x", 3), range(100), 9, "again")
    assert names(small) == ["again", "of-0", "of-2"]
    assert contents(stores[1], small.place("x", 1)) == dict.fromkeys(range(100), 1)


def test_state_beyond_the_budget_keeps_what_fits(tmp_path: Path) -> None:
    store, plenty = CountingStore(), LocalCache(tmp_path / "all", PLENTY)
    for number in range(4):
        commit(store, plenty.place("x", 0), range(number * 20_000, (number + 1) * 20_000), number, f"n{number}")
    everything = {key: key // 20_000 for key in range(80_000)}
    (whole,) = (listed.size for listed in plenty.listing())
    tight = LocalCache(tmp_path / "tight", whole * 4 // 5).place("x", 0)
    assert contents(store, tight) == everything
    store.reads = 0
    commit(store, tight, range(100), 7, "more")
    assert contents(store, tight) == everything | dict.fromkeys(range(100), 7)
    assert store.reads > 0
    (left,) = (listed.size for listed in tight.cache.listing())
    assert left <= tight.cache.budget_bytes
    tiny = LocalCache(tmp_path / "tiny", whole // 4)
    with opened(store, tiny.place("x", 0)):  # also while it is being filled
        (folder,) = (Path(listed.path) for listed in tiny.listing())
        assert 0 < sum(path.stat().st_size for path in folder.glob("*.arrow")) <= tiny.budget_bytes
    with opened(store, tight) as state:  # what was put last is still here
        store.reads = 0
        assert state.get(groups_of(range(100)))[1].all()
        assert store.reads == 0


HOLD = """
import sys
from pathlib import Path
from unskew.state import LocalCache
entry = LocalCache(Path(sys.argv[1]), 1 << 30).place("x", 0).take("a")
print("ready", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_process_leaves_behind_is_swept(tmp_path: Path) -> None:
    cache, store = LocalCache(tmp_path, PLENTY), MemoryStore()
    commit(store, cache.place("x", 0), range(100), 1, "a")
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        assert contents(store, cache.place("x", 0)) == dict.fromkeys(range(100), 1)
        assert len(names(cache, private=True)) == 1  # in use: nobody touches it
        child.kill()
    assert contents(store, cache.place("x", 0)) == dict.fromkeys(range(100), 1)
    cache.sweep()
    assert names(cache, private=True) == []


def test_a_state_that_is_dropped_gives_its_entry_up(tmp_path: Path) -> None:
    cache, store = LocalCache(tmp_path, PLENTY), MemoryStore()
    state = opened(store, cache.place("x", 0))
    assert len(names(cache, private=True)) == 1
    del state
    assert names(cache, private=True) == []


def test_a_full_disk_costs_the_copy_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, store = LocalCache(tmp_path, PLENTY).place("x", 0), CountingStore()
    commit(store, place, range(100), 1, "a")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file_entry_module.os, "posix_fallocate", full)
    commit(store, place, range(5000), 2, "b")  # the index has to grow
    assert contents(store, None) == dict.fromkeys(range(5000), 2)
    assert contents(store, place) == dict.fromkeys(range(5000), 2)
    assert names(place.cache) == []


def test_a_folder_that_is_swept_before_it_is_locked_is_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may look for abandoned folders just then."""
    locked = file_entry_module._locked

    def sweep_first(folder: str) -> int:
        lock = locked(folder)
        Path(folder).rename(Path(folder).with_name("swept"))
        return lock

    monkeypatch.setattr(file_entry_module, "_locked", sweep_first)
    place, store = LocalCache(tmp_path, PLENTY).place("x", 0), MemoryStore()
    commit(store, place, range(10), 1, "a")
    monkeypatch.undo()
    assert contents(store, place) == dict.fromkeys(range(10), 1)


def test_a_folder_that_cannot_be_written_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    place, store = LocalCache(tmp_path / "file", PLENTY).place("x", 0), MemoryStore()
    commit(store, place, range(10), 1, "a")
    assert contents(store, place) == dict.fromkeys(range(10), 1)


@pytest.mark.parametrize("damage", ["manifest", "index", "slots", "chunk"])
def test_a_damaged_copy_is_not_used(tmp_path: Path, damage: str) -> None:
    place, store = LocalCache(tmp_path, PLENTY).place("x", 0), MemoryStore()
    commit(store, place, range(10), 1, "a")
    (listed,) = place.cache.listing()
    for path in Path(listed.path).glob("*.arrow" if damage == "chunk" else damage):
        path.write_bytes(b"")
    assert contents(store, place) == dict.fromkeys(range(10), 1)


def test_entries_of_an_earlier_start_of_the_machine_go(tmp_path: Path) -> None:
    place, store = LocalCache(tmp_path, PLENTY).place("x", 0), MemoryStore()
    old, recent = tmp_path / "boot-old", tmp_path / "boot-recent"
    old.mkdir()
    recent.mkdir()
    os.utime(old, (0, 0))
    commit(store, place, range(10), 1, "a")
    assert (old.exists(), recent.exists()) == (False, True)


def test_other_channels_are_not_looked_at_while_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, store = LocalCache(tmp_path, PLENTY), MemoryStore()
    commit(store, cache.place("x", 0), range(10), 1, "a")
    monkeypatch.setattr(LocalCache, "listing", lambda self: pytest.fail("a look at all channels"))
    commit(store, cache.place("x", 0), range(10), 2, "b")
    assert contents(store, cache.place("x", 0)) == dict.fromkeys(range(10), 2)


def test_folders_of_channels_that_are_gone_are_swept(tmp_path: Path) -> None:
    cache, store = LocalCache(tmp_path, PLENTY), MemoryStore()
    commit(store, cache.place("x", 7), range(10), 1, "a")
    (listed,) = cache.listing()
    shutil.rmtree(listed.path)
    place = Path(listed.path).parent
    cache.sweep()
    assert place.exists(), "somebody may be about to use it"
    os.utime(place, (0, 0))
    cache.sweep()
    assert not place.exists()


def test_copies_lie_in_folders_that_nobody_else_may_enter(tmp_path: Path) -> None:
    """Whatever the umask: a copy holds the keys and the state of a query."""
    before = os.umask(0)
    try:
        cache = LocalCache(tmp_path / "unskew-state", PLENTY)
        commit(MemoryStore(), cache.place("x", 0), range(9), 1, "a")
    finally:
        os.umask(before)
    assert names(cache) == ["a"]
    assert cache.directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("how", ["another owner", "writable", "link"])
def test_copies_in_a_folder_that_others_can_write_to_are_neither_used_nor_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """In a shared place, another user can make the folder first and put an entry there that says what it likes."""
    cache, store = LocalCache(tmp_path / "unskew-state", PLENTY), MemoryStore()
    commit(store, cache.place("x", 0), range(9), 1, "a")
    forged = MemoryStore()
    commit(forged, cache.place("x", 0), range(9), 666, "a")  # an entry of the same commit, with other values
    if how == "another owner":
        uid = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    elif how == "writable":
        cache.directory.chmod(0o777)
    else:
        cache.directory.rename(tmp_path / "elsewhere")
        cache.directory.symlink_to(tmp_path / "elsewhere")
    before = names(cache)
    assert before == ["a"]
    assert contents(store, cache.place("x", 0)) == dict.fromkeys(range(9), 1)
    commit(store, cache.place("x", 1), range(3), 2, "b")
    assert names(cache) == before


def test_a_budget_is_not_negative() -> None:
    with pytest.raises(ArgumentError, match="negative budget"):
        LocalCache(Path("x"), -1)


class TestStore:
    """What a store that is damaged or not ours leads to."""

    def test_other_columns_are_refused(self) -> None:
        store = MemoryStore()
        commit(store, None, range(3), 1, "a")
        with pytest.raises(
            CheckpointError, match=r"key id: int64; value n: int64.*got 'key id: int64; value m: int64'"
        ):
            KeyedState.open(store, KEYS, pa.schema({"m": pa.int64()}), slots=8)

    @pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"format": "x"}', b"\xff"])
    def test_a_damaged_manifest_is_told(self, data: bytes) -> None:
        store = MemoryStore()
        store.write_manifest(data)
        with pytest.raises(CheckpointError, match="damaged"):
            opened(store, None)

    def test_a_newer_format_is_told(self) -> None:
        store = MemoryStore()
        store.write_manifest(Manifest("").to_bytes().replace(b'"format":1', b'"format":2'))
        with pytest.raises(CheckpointError, match="newer unskew"):
            opened(store, None)

    def test_a_damaged_or_missing_chunk_is_told(self) -> None:
        store = MemoryStore()
        commit(store, None, range(3), 1, "a")
        (sequence,) = store.chunks
        store.chunks[sequence] = store.chunks[sequence][:100]
        with pytest.raises(CheckpointError, match="a chunk of state is damaged"):
            opened(store, None)
        del store.chunks[sequence]
        with pytest.raises(CheckpointError, match="a chunk of state is missing"):
            opened(store, None)
