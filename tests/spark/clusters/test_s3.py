"""A checkpoint, with its records and state, on an S3-compatible server on the loopback address."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyspark
import pytest

HERE = Path(__file__).parent
SDK = "2.35.4"
ACCESS = {"AWS_ACCESS_KEY_ID": "loopback", "AWS_SECRET_ACCESS_KEY": "loopback", "AWS_REGION": "us-east-1"}


def module(name: str):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def s3_settings(endpoint: str) -> list[str]:
    """Return what Spark needs to reach it; of Amazon's SDK the few parts that Hadoop uses, not the bundle of all."""
    (hadoop,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    version = hadoop.stem.removeprefix("hadoop-client-api-")
    parts = [f"software.amazon.awssdk:{part}:{SDK}" for part in ("s3", "s3-transfer-manager", "sts")]
    return [
        f"spark.jars.packages={','.join([f'org.apache.hadoop:hadoop-aws:{version}', *parts])}",
        "spark.jars.excludes=software.amazon.awssdk:bundle",
        f"spark.hadoop.fs.s3a.endpoint={endpoint}",
        "spark.hadoop.fs.s3a.path.style.access=true",
        "spark.hadoop.fs.s3a.endpoint.region=us-east-1",
        "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled=false",  # needs the bundle's own Netty, not Spark's
    ]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Give the address of a server with one bucket."""
    clusters = module("standalone")
    port = clusters.free_port()
    with (tmp_path / "server.log").open("w") as log:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            clusters.wait_until_it_listens(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.spark
@pytest.mark.slow
def test_a_checkpoint_on_s3(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3

    for name, value in {**ACCESS, "AWS_ENDPOINT_URL": server}.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=server, region_name=ACCESS["AWS_REGION"])
    client.create_bucket(Bucket="balanced")
    jobs = module("test_standalone")
    keys = [np.random.default_rng(i).zipf(1.4, 500) % 50 for i in range(4)]
    data, out = tmp_path / "data", tmp_path / "out"
    executors = [f"spark.executorEnv.{name}={os.environ[name]}" for name in (*ACCESS, "AWS_ENDPOINT_URL")]
    settings = [*s3_settings(server), *executors]
    jobs.write(data, 0, keys[:2])
    first = jobs.submit("local-cluster[2,1,700]", data, "s3a://balanced/checkpoint", out, *settings)
    jobs.write(data, 2, keys[2:])
    second = jobs.submit("local-cluster[2,1,700]", data, "s3a://balanced/checkpoint", out, *settings)
    assert (first["batches"], second["batches"]) == (2, 2)
    assert first["moves"] > 0
    jobs.check(out, keys)
    listed = client.list_objects_v2(Bucket="balanced", Prefix="checkpoint/unskew/")["Contents"]
    names = {entry["Key"].removeprefix("checkpoint/unskew/").split("/")[0] for entry in listed}
    assert names >= {"epochs", "prepared", "commit", "state"}
