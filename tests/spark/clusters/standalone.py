"""A standalone cluster of Spark on the loopback address: a master and two workers, each a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from unskew.java import find_java

HOME = Path(pyspark.__file__).parent
PATIENCE_SECONDS = 120


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """Start a cluster with one core per worker, give its master's address, and stop it."""
    folder.mkdir()
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        start = [
            "org.apache.spark.deploy.master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--webui-port",
            "0",
        ]
        stack.enter_context(running(folder, "master", start))
        wait_until_it_listens(port)
        for number in range(workers):
            work = folder / f"work-{number}"
            start = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
            start += ["--webui-port", "0", "--work-dir", str(work), master]
            stack.enter_context(running(folder, f"worker-{number}", start))
        yield master


@contextmanager
def running(folder: Path, name: str, arguments: list[str]) -> Iterator[None]:
    java = find_java()
    assert java is not None
    local = folder / f"{name}-local"
    local.mkdir()
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("SPARK_")},
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(local),  # each has a disk of its own
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), *arguments], env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_until_it_listens(port: int) -> None:
    patience_ends = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < patience_ends:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(f"nothing listens on port {port}")
