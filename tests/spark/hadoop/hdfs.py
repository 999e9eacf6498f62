"""A real HDFS on the loopback address: a name node and a data node in one process of Java's."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from unskew.java import find_java
from unskew.kafka.jars import Bundle, Module, fetch

START_SECONDS = 90


def hdfs_jars() -> list[Path]:
    """Return Hadoop's jars, of the version that PySpark brings with it; fetched at the first call and kept."""
    (client,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    modules = (
        Module("org.apache.hadoop", "hadoop-client-minicluster", version),
        Module("org.junit.jupiter", "junit-jupiter-api", "5.13.4"),  # the cluster is part of Hadoop's own tests
    )
    return fetch([Bundle(f"hadoop-hdfs-{version}", modules)])


@contextmanager
def running_hdfs(home: Path) -> Iterator[str]:
    """Start one below a folder, give its address, and stop it."""
    jars, java, details = os.pathsep.join(map(str, hdfs_jars())), find_java(), home / "details.json"
    command = [str(java.home / "bin" / "java"), "-cp", jars, "-Xmx512m", "-XX:TieredStopAtLevel=1"]
    command += [f"-Dtest.build.data={home / 'data'}", "org.apache.hadoop.test.MiniDFSClusterManager"]
    command += ["-datanodes", "1", "-format", "-writeDetails", str(details)]
    with (home / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log, cwd=home) as process:
        try:
            end = time.monotonic() + START_SECONDS
            while not (details.exists() and details.read_text().endswith("}")):
                assert process.poll() is None and time.monotonic() < end, (home / "log").read_text()[-2000:]
                time.sleep(0.1)
            yield f"hdfs://localhost:{json.loads(details.read_text())['namenode_port']}"
        finally:
            process.kill()
