"""What the security page promises: checkpoints run no code, pages stay on this machine, passwords stay secret."""

from __future__ import annotations

import ast
import os
import pickle
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import unskew
from unskew.cli.output import print_error
from unskew.codec import dump, load
from unskew.errors import ArgumentError, CheckpointError, FormatError, UnskewError
from unskew.jobs.job import Job
from unskew.runtime.record import Record
from unskew.runtime.wire import pack, unpack
from unskew.spark import served
from unskew.spark.file_sink import FileSink
from unskew.spark.prometheus import serve
from unskew.spark.sinks import AppendSink, FolderSink
from unskew.state.files import Files

PACKAGE = Path(unskew.__file__).parent
DANGEROUS = {"pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
CALLS = {"eval", "exec", "compile", "__import__"}
ALLOWED = {
    ("codec_kinds.py", "exec"): "runs the imports of our own modules that only type hints need",
    ("codec_kinds.py", "compile"): "the same",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield str(path.relative_to(PACKAGE)), ast.parse(path.read_text())


def test_no_module_imports_what_runs_code_when_it_reads() -> None:
    found = set()
    for name, module in modules():
        for node in ast.walk(module):
            if isinstance(node, ast.Import):
                found |= {(name, each.name) for each in node.names if each.name.split(".")[0] in DANGEROUS}
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in DANGEROUS:
                found.add((name, node.module))
    assert found == set()


def test_no_module_runs_text_as_code() -> None:
    found = set()
    for name, module in modules():
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
                found.add((name, node.func.id))
            if isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "shell"):
                found.add((name, node.arg))
    assert found == set(ALLOWED)


def test_sockets_that_unpickle_are_open_to_this_user_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The tick asks the driver for files; both are processes of one user, and the folder between them is theirs."""
    users = [name for name, module in modules() for node in ast.walk(module) if _uses_connections(node)]
    assert users == ["spark/served.py"]
    monkeypatch.setattr(served, "SHORT", str(tmp_path))
    before = os.umask(0)
    try:
        address = Path(served._address.__wrapped__())
    finally:
        os.umask(before)
    assert address.parent.stat().st_mode & 0o777 == 0o700


def _uses_connections(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith("multiprocessing")


@dataclass(frozen=True)
class Note:
    """Something that the codec stores."""

    text: str


@dataclass(frozen=True, eq=False)
class Values:
    """An array that the codec stores."""

    values: np.ndarray


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("exploded",)


@pytest.fixture
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if a bomb went off."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "exploded").exists()


def test_a_pickle_in_place_of_a_record_is_refused(quiet: None) -> None:
    for data in (pickle.dumps(Bomb()), dump(Note(pickle.dumps(Bomb()).hex()))):
        with pytest.raises(FormatError):
            load(Record, data)


def test_arrow_types_that_carry_a_pickle_stay_closed(quiet: None) -> None:
    """Old versions of Arrow unpickled this very metadata when they read a file."""
    metadata = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Bomb()),
    }
    field = pa.field("value", pa.int64(), metadata=metadata)
    table = pa.table([[1, 2]], schema=pa.schema([field], metadata={b"pandas": pickle.dumps(Bomb())}))
    assert unpack(pack(table)).column(0).to_pylist() == [1, 2]


def test_arrays_of_objects_are_not_stored() -> None:
    """Numpy would pickle them."""
    assert load(Values, dump(Values(np.arange(3)))).values.tolist() == [0, 1, 2]
    with pytest.raises(ArgumentError):
        dump(Values(np.array([Bomb()], object)))


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o002, 0o664), (0o077, 0o600)])
def test_files_have_the_permissions_that_the_umask_gives(tmp_path: Path, umask: int, mode: int) -> None:
    """Though they are written under a scratch name, and linked or moved: whoever may read the folder reads them all."""
    files, before = Files(str(tmp_path / "ck" / "unskew")), os.umask(umask)
    try:
        files.create("epochs/1", b"1")
        files.write("state/0/a.arrow", b"2")
        files.replace("tick", b"3")
        files.replace("tick", b"4")
    finally:
        os.umask(before)
    found = [*(tmp_path / "ck").rglob("*")]
    assert len([path for path in found if path.is_file()]) == 3
    for path in found:
        expected = mode if path.is_file() else 0o777 & ~umask
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_a_group_that_owns_the_folder_owns_its_files(tmp_path: Path) -> None:
    """A folder shared by a group has its bit set; scratch files must be made in it, not moved into it."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2775)
    if os.getuid() == 0:
        os.chown(shared, -1, 4321)
    files = Files(str(shared))
    files.create("commit/0", b"")
    files.replace("history/0.jsonl.gz", b"{}")
    assert {path.stat().st_gid for path in shared.rglob("*")} == {shared.stat().st_gid}


def asked(port: int, request: str) -> str:
    """Send a request as it is; return the first line of the answer and its body."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"{request}\r\n\r\n".encode())
        with connection.makefile() as answer:
            return answer.read()


HOSTS = {
    "127.0.0.1:PORT": True,
    "localhost:PORT": True,
    "localhost": True,
    "[::1]:PORT": True,
    "LOCALHOST:PORT": True,
    "evil.example": False,
    "evil.example:PORT": False,
    "127.0.0.1.evil.example:PORT": False,
    "localhost@evil.example": False,
    "[": False,
    "": False,
}


@pytest.mark.parametrize("host", HOSTS)
def test_the_metrics_page_answers_to_names_of_this_machine_alone(host: str) -> None:
    """Otherwise any web page could read it: its name would only have to become that of the loopback address."""
    server = serve(lambda: "unskew_hot_key")
    try:
        assert server.server_address[0] == "127.0.0.1"
        port = server.server_port
        answer = asked(port, f"GET /metrics HTTP/1.0\r\nHost: {host.replace('PORT', str(port))}")
        assert ("unskew_hot_key" in answer) == HOSTS[host]
        assert HOSTS[host] or answer.startswith("HTTP/1.0 403")
        assert asked(port, "GET /metrics HTTP/1.0").startswith("HTTP/1.0 403"), "no name at all"
    finally:
        server.shutdown()
        server.server_close()


def test_the_metrics_page_answers_everybody_if_it_is_told_to() -> None:
    server = serve(lambda: "unskew_hot_key", host="0.0.0.0")
    try:
        assert "unskew_hot_key" in asked(server.server_port, "GET / HTTP/1.0\r\nHost: metrics.example")
    finally:
        server.shutdown()
        server.server_close()


SECRET = "hunter2-AKIA"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="ada" password="{SECRET}";'
HOLDERS = [
    f"s3a://AKIAID:{SECRET}@bucket/checkpoint",
    f"sftp://ada:{SECRET}@host:22/ck",
    f"jdbc:postgresql://host/db?user=ada&password={SECRET}",
    f"https://account.blob.core.windows.net/ck?sv=1&signature={SECRET}",
    {"kafka.sasl.jaas.config": JAAS, "subscribe": "clicks"},
    {"fs.s3a.secret.key": SECRET},
    {"fs.s3a.access.key": SECRET, "other": 1},
    f"fs.azure.account.key={SECRET}",
    [("password", SECRET)],
]


@pytest.mark.parametrize("holder", HOLDERS, ids=str)
def test_errors_keep_passwords_to_themselves(holder: object, capsys: pytest.CaptureFixture[str]) -> None:
    error = UnskewError(f"cannot use {holder}", where=str(holder), got=holder, hint=f"change {holder}")
    print_error(error, as_json=True)
    print_error(error, as_json=False)
    printed = capsys.readouterr()
    assert SECRET not in f"{error} {error!r} {error.args} {vars(error)} {printed.out} {printed.err}"
    assert "***" in str(error)


@pytest.mark.parametrize(
    "text", ["s3a://bucket/ck", "http://host:9092/x", "kafka:host:9092/topic", "the token is 'hot'", "a@b.example"]
)
def test_errors_say_all_that_is_no_secret(text: str) -> None:
    assert str(UnskewError(text, got=text)) == f"{text}, got {text!r}."


def test_a_checkpoint_that_cannot_be_reached_is_named_without_its_password() -> None:
    with pytest.raises(CheckpointError) as raised:
        Files(f"nowhere://ada:{SECRET}@host/ck").create("epochs/1", b"")
    assert SECRET not in str(raised.value) and "nowhere://***@host/ck" in str(raised.value)


def test_jobs_and_sinks_do_not_show_their_options() -> None:
    options = {"password": SECRET, "fs.s3a.secret.key": SECRET, "kafka.sasl.jaas.config": JAAS}
    job = Job(
        source="kafka:host:9092/clicks",
        sink="parquet:out",
        key="user",
        aggregate="count",
        source_options=options,
        sink_options=options,
        conf=options,
    )
    sinks = (FileSink("parquet", "/out", options), FolderSink("parquet", "/out", options), AppendSink("jdbc", options))
    for each in (job, *sinks):
        assert SECRET not in repr(each)
