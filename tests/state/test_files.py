"""Durable files: who wins a race, what damage is noticed, and what a place must be able to do."""

from __future__ import annotations

import io
import os
import pickle
import socket
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.errors import CheckpointError
from unskew.state import files as module
from unskew.state import place as places
from unskew.state.files import ROLL_BYTES, Files, Piece, PieceWriter, located
from unskew.state.local_disk import LocalDisk

RACER = """
import sys, time
from pathlib import Path
from unskew.state.files import Files
root, mine = sys.argv[1:]
Path(root, f"ready-{mine}").touch()
while not Path(root, "go").exists():
    time.sleep(0.0005)
print([Files(root).create(f"claims/{i}", mine.encode()) for i in range(50)])
"""


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(str(tmp_path / "ck"))


def check_all_methods(files: Files) -> None:
    """Go once through the contract, on any place."""
    files.probe()
    assert files.names() == []
    assert files.names("nowhere") == []
    assert files.read_or_none("a/b/one") is None
    assert not files.exists("a/b/one")
    assert files.create("a/b/one", b"mine") is True
    assert files.create("a/b/one", b"mine") is True
    assert files.create("a/b/one", b"theirs") is False
    assert files.read("a/b/one") == files.read_or_none("a/b/one") == b"mine"
    assert files.exists("a/b/one")
    assert not files.exists("a/b")
    files.write("a/b/two", b"")
    files.write("a/three", b"3")
    files.replace("a/three", b"4")
    files.replace("a/four", b"4")
    assert files.read("a/three") == b"4"
    assert files.read("a/b/two") == b""
    assert files.names() == ["a"]
    assert files.names("a") == ["b", "four", "three"]
    assert files.child("a").names("b") == files.child("a/b").names() == ["one", "two"]
    odd = "odd/100% sure? #1 + ä.txt"
    assert files.create(odd, b"odd")
    assert files.names("odd") == [odd.partition("/")[2]]
    assert files.read(odd) == b"odd"
    with PieceWriter(files, "pieces", "p") as writer:
        first, second = writer.write(b"abc"), writer.write(pa.py_buffer(b"defg"))
    assert files.read_piece(first).to_pybytes() == b"abc"
    assert files.read_piece(second).to_pybytes() == b"defg"
    with pytest.raises(CheckpointError, match="of 1000 bytes"):
        files.read_piece(Piece(first.file, 100, 1000, 0))
    with pytest.raises(CheckpointError, match="of 9 bytes"):
        files.read_piece(Piece(first.file, 1 << 40, 9, 0))
    files.remove("a/b/one")
    files.remove("a/b/one")
    assert files.names("a/b") == ["two"]
    files.remove_folder("a")
    files.remove_folder("a")
    assert files.names() == ["odd", "pieces"]
    with pytest.raises(CheckpointError) as missing:
        files.read("a/three")
    assert f"the file does not exist (in {files.root}/a/three). Hint: " in str(missing.value)


def test_all_methods_on_a_local_disk(files):
    check_all_methods(files)


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "{}/"])
@pytest.mark.parametrize("folder", ["plain", "with a space", "100%", "a%20b", "q?x#y"])
def test_every_way_to_write_a_local_root(tmp_path, form, folder):
    files = Files(form.format(tmp_path / folder))
    assert files.create("x", b"1")
    assert (tmp_path / folder / "x").read_bytes() == b"1"
    assert files.child("deep down").create("y", b"2")
    assert (tmp_path / folder / "deep down" / "y").read_bytes() == b"2"


def test_files_are_a_plain_value(files):
    files.write("x", b"1")
    again = pickle.loads(pickle.dumps(files))
    assert again == files
    assert again.read("x") == b"1"


def test_one_of_many_threads_wins(files):
    with ThreadPoolExecutor(8) as pool:
        for round_number in range(30):
            name = f"claims/{round_number}"
            won = list(pool.map(lambda i, name=name: files.create(name, b"thread %d" % i), range(8)))
            assert won.count(True) == 1
            assert files.read(name) == b"thread %d" % won.index(True)
    assert not [path for path in Path(files.root, "claims").iterdir() if path.name.startswith(".")]


def test_one_of_several_processes_wins(tmp_path):
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, str(tmp_path), f"racer-{i}"], stdout=subprocess.PIPE, text=True)
        for i in range(3)
    ]
    while len(list(tmp_path.glob("ready-*"))) < len(racers):
        assert all(racer.poll() in (None, 0) for racer in racers)
        time.sleep(0.01)
    (tmp_path / "go").touch()
    won = [[word == "True" for word in racer.communicate()[0].strip("[]\n").split(", ")] for racer in racers]
    for number, claims in enumerate(zip(*won, strict=True)):
        assert claims.count(True) == 1
        assert Files(str(tmp_path)).read(f"claims/{number}") == f"racer-{claims.index(True)}".encode()


class Flaky(LocalDisk):
    """A disk behind a network that loses an answer, or the request."""

    failures = 0
    arrives = True

    def create(self, name: str, data: bytes) -> bool:
        if type(self).failures:
            type(self).failures -= 1
            if self.arrives:
                super().create(name, data)
            raise TimeoutError("no answer")
        return super().create(name, data)


@pytest.fixture
def flaky(files, monkeypatch) -> type[Flaky]:
    monkeypatch.setattr(module, "reach", lambda root: Flaky(Path(root)))
    monkeypatch.setattr(module, "FIRST_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(Flaky, "failures", 1)
    return Flaky


def test_a_create_whose_answer_was_lost_is_our_own(files, flaky):
    assert files.create("x", b"mine") is True
    assert files.read("x") == b"mine"


def test_a_create_that_failed_while_another_arrived_is_not_ours(files, flaky, monkeypatch):
    monkeypatch.setattr(Flaky, "arrives", False)
    LocalDisk(Path(files.root)).create("x", b"theirs")
    assert files.create("x", b"mine") is False


def test_a_create_that_did_not_arrive_is_tried_again(files, flaky, monkeypatch):
    monkeypatch.setattr(Flaky, "arrives", False)
    assert files.create("x", b"mine") is True
    assert files.read("x") == b"mine"


def test_a_create_that_never_works_says_so(files, flaky, monkeypatch):
    monkeypatch.setattr(Flaky, "arrives", False)
    monkeypatch.setattr(Flaky, "failures", 100)
    with pytest.raises(CheckpointError, match="cannot be created: no answer") as caught:
        files.create("deep/x", b"mine")
    assert f"{files.root}/deep/x" in str(caught.value)


def test_what_is_written_is_forced_to_disk_before_it_gets_its_name(files, monkeypatch):
    done: list[str] = []
    real_sync, real_link, real_replace = os.fsync, Path.hardlink_to, Path.replace
    files.write("x/already-there", b"")

    def sync(file: int) -> None:
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{file}") else "file")  # noqa: PTH112
        real_sync(file)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "hardlink_to", lambda *a: (done.append("name"), real_link(*a))[1])
    monkeypatch.setattr(Path, "replace", lambda *a: (done.append("name"), real_replace(*a))[1])
    files.create("x/a", b"1")
    assert done == ["file", "name", "folder"]
    done.clear()
    files.replace("x/a", b"2")
    assert done == ["file", "name", "folder"]
    done.clear()
    files.write("x/b", b"3")
    assert done == ["file", "folder"]


def test_scratch_that_a_crash_left_is_not_listed(files):
    files.write("x/a", b"1")
    Path(files.root, "x", ".tmp-123").write_bytes(b"half")
    assert files.names("x") == ["a"]


def test_a_failed_replace_leaves_the_old_file(files, monkeypatch):
    files.replace("x/a", b"old")

    def refuse(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(CheckpointError, match="no space left"):
        files.replace("x/a", b"new")
    assert files.read("x/a") == b"old"
    assert [path.name for path in Path(files.root, "x").iterdir()] == ["a"]


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"cannot be written: .*Not a directory.*file/ck/x"):
        Files(str(tmp_path / "file" / "ck")).write("x", b"1")


@given(st.lists(st.binary(max_size=200) | st.integers(0, 400_000).map(bytes), max_size=12))
def test_pieces_come_back_wherever_they_are(tmp_path_factory, parts):
    files = Files(str(tmp_path_factory.mktemp("pieces")))
    with PieceWriter(files, "chunks", "batch 7") as writer:
        pieces = [writer.write(part) for part in parts]
    assert [files.read_piece(piece).to_pybytes() for piece in pieces] == parts
    assert all(piece.offset % 64 == 0 for piece in pieces)
    assert list(dict.fromkeys(piece.file for piece in pieces)) == writer.files_written
    assert writer.files_written == [f"chunks/batch 7-{k}.arrow" for k in range(len(writer.files_written))]
    assert files.names("chunks") == sorted(name.partition("/")[2] for name in writer.files_written)


def test_a_new_file_begins_once_one_is_full(files):
    with PieceWriter(files, "c", "n") as writer:
        pieces = [writer.write(bytes(size)) for size in (ROLL_BYTES - 64, 63, 1, 3 * ROLL_BYTES, 1)]
    assert [piece.file for piece in pieces] == ["c/n-0.arrow"] * 2 + ["c/n-1.arrow"] * 2 + ["c/n-2.arrow"]


def test_a_piece_of_arrow_can_be_read_in_place(files):
    table = pa.table({"a": range(1000)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write(table)
    with PieceWriter(files, "c", "n") as writer:
        writer.write(b"x")
        piece = writer.write(sink.getvalue())
    assert pa.ipc.open_stream(files.read_piece(piece)).read_all().equals(table)


def test_an_exception_writes_nothing_more(files):
    with pytest.raises(KeyError), PieceWriter(files, "c", "n") as writer:
        writer.write(b"x")
        raise KeyError
    assert files.names("c") == writer.files_written == []


def written_piece(files: Files) -> tuple[Piece, Path]:
    with PieceWriter(files, "c", "n") as writer:
        writer.write(b"before")
        piece = writer.write(bytes(range(100)))
        writer.write(b"after")
    return piece, Path(files.root, piece.file)


def test_a_flipped_bit_in_a_piece_is_noticed_and_elsewhere_does_no_harm(files):
    piece, path = written_piece(files)
    good = path.read_bytes()
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])
        if piece.offset <= place < piece.offset + piece.length:
            with pytest.raises(CheckpointError, match=r"c/n-0\.arrow, bytes 64 to 164\)\. Hint: "):
                files.read_piece(piece)
        else:
            files.read_piece(piece)


@pytest.mark.parametrize("left", [0, 10, 64, 163])
def test_a_file_that_was_cut_short(files, left):
    piece, path = written_piece(files)
    os.truncate(path, left)
    with pytest.raises(CheckpointError, match=f"the file has {max(left - 64, 0)} of 100 bytes .*n-0.arrow"):
        files.read_piece(piece)


def test_a_file_that_is_missing(files):
    piece, path = written_piece(files)
    path.unlink()
    with pytest.raises(CheckpointError, match="does not exist") as caught:
        files.read_piece(piece)
    assert str(path) in str(caught.value)


def test_a_probe_leaves_nothing_behind(files):
    files.probe()
    assert list(Path(files.root).iterdir()) == []


class Forgetful(LocalDisk):
    """A filesystem that overwrites."""

    def create(self, name: str, data: bytes) -> bool:
        self.replace(name, data)
        return True


def test_a_probe_refuses_a_place_that_overwrites(files, monkeypatch):
    monkeypatch.setattr(module, "reach", lambda root: Forgetful(Path(root)))
    with pytest.raises(CheckpointError, match=r"created twice.*Hint: use a disk"):
        files.probe()
    assert list(Path(files.root).iterdir()) == []


class FakeFilesystem:
    """As much of an fsspec filesystem as Arrow asks for, on a local folder."""

    protocol = "fake"

    def __init__(self, folder: Path, modes: dict[str, str]) -> None:
        self.folder, self.modes = folder, modes

    def _at(self, path: str) -> Path:
        return self.folder / path.strip("/")

    def open(self, path: str, mode: str) -> io.IOBase:
        return self._at(path).open(self.modes[mode])

    def info(self, path: str) -> dict[str, object]:
        found = self._at(path)
        size = found.stat().st_size
        return {"name": path, "size": size, "type": "directory" if found.is_dir() else "file"}

    def find(self, path: str, maxdepth: int | None, withdirs: bool, detail: bool) -> dict[str, object]:
        paths = [f"{path}/{each.name}" for each in self._at(path).iterdir()]
        return {each: self.info(each) for each in paths}

    def exists(self, path: str) -> bool:
        return self._at(path).exists()

    def isdir(self, path: str) -> bool:
        return self._at(path).is_dir()

    def isfile(self, path: str) -> bool:
        return self._at(path).is_file()

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self._at(path).mkdir(parents=True, exist_ok=exist_ok)

    def mkdir(self, path: str, create_parents: bool) -> None:
        self.makedirs(path, exist_ok=True)

    def mv(self, source: str, target: str, recursive: bool = False) -> None:
        self._at(source).replace(self._at(target))

    def rm(self, path: str, recursive: bool = False) -> None:
        LocalDisk(self._at(path)).remove_folder("") if recursive else self._at(path).unlink()


@pytest.fixture
def fake(tmp_path, monkeypatch) -> dict[str, str]:
    """Install an fsspec whose only scheme is ``fake``; give what it makes of each mode."""
    modes = {"rb": "rb", "wb": "wb", "xb": "xb"}
    fsspec = types.ModuleType("fsspec")
    fsspec.__spec__ = types.SimpleNamespace()
    fsspec.url_to_fs = lambda uri: (FakeFilesystem(tmp_path, modes), uri.removeprefix("fake://"))
    monkeypatch.setitem(sys.modules, "fsspec", fsspec)
    monkeypatch.setitem(sys.modules, "fsspec.core", fsspec)
    places._reach.cache_clear()
    return modes


def test_all_methods_through_fsspec(fake):
    check_all_methods(Files("fake://somewhere/ck"))


def test_a_probe_refuses_an_fsspec_that_overwrites(fake, tmp_path):
    fake["xb"] = "wb"
    with pytest.raises(CheckpointError, match=r"created twice.*in fake://somewhere/ck.*Hint: "):
        Files("fake://somewhere/ck").probe()
    assert list((tmp_path / "somewhere" / "ck").iterdir()) == []


def test_a_probe_refuses_an_fsspec_without_exclusive_create(fake):
    fake["xb"] = "strange"
    with pytest.raises(CheckpointError, match=r"only if there is none: .*in fake://somewhere/ck.*Hint: "):
        Files("fake://somewhere/ck").probe()


def test_a_probe_refuses_what_only_arrow_reaches(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    places._reach.cache_clear()
    with pytest.raises(CheckpointError, match=r"Python cannot create.*in mock://host/ck"):
        Files("mock://host/ck").probe()


def test_a_scheme_that_nobody_knows(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    places._reach.cache_clear()
    with pytest.raises(CheckpointError, match=r"cannot be reached from Python.*nosuch://host/ck"):
        Files("nosuch://host/ck").read("x")


def test_a_place_elsewhere_is_written_as_hadoop_writes_it(monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(pyarrow.fs, "FileSystem", types.SimpleNamespace(from_uri=asked.append))
    located("hdfs://node:8020/my ck/100%")
    assert asked == ["hdfs://node:8020/my%20ck/100%25"]


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give a bucket of an S3-compatible server on the loopback address."""
    import boto3

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "loopback")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    with (tmp_path / "server.log").open("w") as log:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            client = boto3.client("s3", endpoint_url=address, region_name="us-east-1")
            wait_for(port)
            client.create_bucket(Bucket="balanced")
            yield "balanced"
        finally:
            process.terminate()
            process.wait(30)


def wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"nothing listens on port {port}")


@pytest.mark.slow
def test_all_methods_on_s3(bucket, monkeypatch):
    for scheme in ("s3", "s3a"):
        check_all_methods(Files(f"{scheme}://{bucket}/{scheme} ck/100%"))
    check_all_methods(Files(f"s3://{bucket}/top"))
    assert {"s3 ck", "s3a ck", "top"} == set(Files(f"s3://{bucket}").names())
    many = Files(f"s3://{bucket}/many")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: many.write(f"x/{i:04}", b""), range(1010)))
    assert many.names("x") == [f"{i:04}" for i in range(1010)]
    many.remove_folder("x")
    assert many.names() == []
    with pytest.raises(CheckpointError, match=r"bucket does not exist.*in s3://nosuch/ck/x\)\. Hint: "):
        Files("s3://nosuch/ck").read_or_none("x")


@pytest.mark.slow
def test_s3_without_boto3_can_do_all_but_create(bucket, monkeypatch):
    monkeypatch.setattr(places, "find_spec", lambda name: None)
    places._reach.cache_clear()
    files = Files(f"s3a://{bucket}/arrow ck")
    with PieceWriter(files, "pieces", "p") as writer:
        piece = writer.write(b"abc")
    assert files.read_piece(piece).to_pybytes() == b"abc"
    files.replace("state", b"1")
    files.replace("state", b"2")
    assert (files.read("state"), files.names()) == (b"2", ["pieces", "state"])
    files.remove("state")
    assert files.read_or_none("state") is None
    with pytest.raises(CheckpointError, match="S3 with boto3 installed"):
        files.probe()
    places._reach.cache_clear()
