"""A real Kafka broker on this machine: one process in KRaft mode, on loopback, on free ports."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from unskew.errors import MissingPackageError, SessionError
from unskew.java import HOW_TO_INSTALL, find_java
from unskew.kafka.jars import KAFKA_VERSION, broker_jars

LOOPBACK = "127.0.0.1"
START_SECONDS = 90.0
STOP_SECONDS = 30.0
_SIGN = "# written by unskew kafka up\n"
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)  # the smallest request: which versions do you speak?


@dataclass(frozen=True)
class Broker:
    """A broker that was started in a folder, running or not.

    Starting takes seconds, so this example does not run here::

        with start("/tmp/kafka") as broker:
            print(broker.bootstrap)
    """

    folder: str  # with its data, its settings, its log, and a file that says where it listens
    bootstrap: str  # address, for bootstrap.servers
    pid: int

    @property
    def running(self) -> bool:
        """Whether the process is there, and is ours."""
        try:
            command = Path(f"/proc/{self.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            asked = subprocess.run(["ps", "-o", "command=", "-p", str(self.pid)], capture_output=True, check=False)
            command = asked.stdout.decode()
        return self.folder in command and "kafka.Kafka" in command

    @property
    def answers(self) -> bool:
        host, port = self.bootstrap.split(":")
        try:
            with socket.create_connection((host, int(port)), timeout=2) as connection:
                connection.sendall(_API_VERSIONS)
                return len(connection.recv(4)) == 4
        except OSError:
            return False

    def stop(self) -> None:
        """Stop it, and wait until it has stopped; its data stay. Does nothing if it does not run."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            if self.running:
                os.kill(self.pid, how)
                _wait(lambda: not self._alive(), STOP_SECONDS)
        _entry(self.folder).unlink(missing_ok=True)

    def _alive(self) -> bool:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)  # a child of ours stays a zombie until somebody asks
        return self.running

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(
    folder: str | Path,
    *,
    port: int | None = None,
    settings: Mapping[str, str] | None = None,
    short_run: bool = False,
) -> Broker:
    """Start a broker, or return the one that runs in this folder already.

    One process is broker and controller. It listens on loopback only, without passwords, and outlives this process.
    Data of an earlier run in the same folder are there again. The first start on a machine fetches the jars.

    Parameters
    ----------
    folder
        Where its data go; created if missing.
    port
        Where to listen; any free port if None.
    settings
        More lines for ``server.properties``.
    short_run
        Compile less thoroughly. This starts sooner, for tests.
    """
    place = Path(folder).resolve()
    known = find(place)
    if known is not None and known.running:
        return known
    java = find_java()
    if java is None:
        raise MissingPackageError("no Java was found", hint=HOW_TO_INSTALL)
    classes = os.pathsep.join(str(jar) for jar in broker_jars())
    place.mkdir(parents=True, exist_ok=True)
    free, controller = _free_ports()
    listener = port or free
    properties, log = place / "server.properties", place / "broker.log"
    properties.write_text(_properties(place, listener, controller, settings or {}))
    command = [str(java.home / "bin" / "java"), "-cp", classes, "-Dorg.apache.logging.log4j.level=WARN"]
    if not (place / "data" / "meta.properties").exists():
        _format(command, properties)
    hurry = ["-XX:TieredStopAtLevel=1"] if short_run else []
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command, "-Xmx768m", "-XX:+UseSerialGC", *hurry, "kafka.Kafka", str(properties)],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    broker = Broker(str(place), f"{LOOPBACK}:{listener}", process.pid)
    _entry(place).write_text(json.dumps({**asdict(broker), "version": KAFKA_VERSION}))
    _wait(lambda: process.poll() is not None or broker.answers, START_SECONDS)
    started = process.poll() is None and broker.answers
    process.returncode = 0  # it outlives us on purpose; do not warn that nobody waited for it
    if not started:
        broker.stop()
        tail = log.read_text(errors="replace").splitlines()[-1:]
        raise SessionError("the broker did not start", where=str(log), got="".join(tail) or None)
    return broker


def find(folder: str | Path) -> Broker | None:
    """Return the broker that was started in a folder and not stopped since, or None."""
    try:
        entry = json.loads(_entry(Path(folder).resolve()).read_text())
        return Broker(entry["folder"], entry["bootstrap"], entry["pid"])
    except (OSError, ValueError, KeyError):
        return None


def delete(folder: str | Path) -> None:
    """Delete the files that a broker has left in a folder, and nothing else."""
    place = Path(folder).resolve()
    properties = place / "server.properties"
    if not properties.exists() or not properties.read_text().startswith(_SIGN):
        return
    shutil.rmtree(place / "data", ignore_errors=True)
    for each in (properties, place / "broker.log", _entry(place)):
        each.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # something else is in it
        place.rmdir()


def default_folder() -> Path:
    """Return where ``unskew kafka up`` keeps its broker: ``unskew/kafka`` in the user's state folder."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "unskew" / "kafka"


def _entry(folder: str | Path) -> Path:
    return Path(folder) / "broker.json"


def _properties(folder: Path, port: int, controller: int, more: Mapping[str, str]) -> str:
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "data"),
        "num.partitions": "4",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.dedupe.buffer.size": str(16 << 20),
        **more,
    }
    return _SIGN + "".join(f"{name}={value}\n" for name, value in lines.items())


def _format(command: list[str], properties: Path) -> None:
    tool = ["-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format"]
    tool += ["-t", _cluster_name(), "-c", str(properties)]
    done = subprocess.run([*command, *tool], capture_output=True, text=True, timeout=START_SECONDS, check=False)
    if done.returncode:
        raise SessionError("Kafka could not prepare its folder", where=str(properties.parent), got=done.stderr[-300:])


def _cluster_name() -> str:
    """Return a new name in Kafka's form. A leading dash would make it an option."""
    name = "-"
    while name.startswith("-"):
        name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return name


def _free_ports() -> tuple[int, int]:
    """Return two different free ports."""
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind((LOOPBACK, 0))
        return int(first.getsockname()[1]), int(second.getsockname()[1])


def _wait(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() <= end:
        time.sleep(0.1)
