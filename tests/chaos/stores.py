"""unskew's own files on an S3-compatible server, while Spark's logs stay on the disk."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

from unskew.spark import writer
from unskew.state.files import Files

BUCKET = "chaos"
ACCESS = {"AWS_ACCESS_KEY_ID": "loopback", "AWS_SECRET_ACCESS_KEY": "loopback", "AWS_REGION": "us-east-1"}
PATIENCE_SECONDS = 120


def own_files_on_s3(root: str) -> None:
    """Send what unskew writes to `root`; Spark needs no packages for S3 then."""
    child = Files.child

    def elsewhere(files: Files, name: str) -> Files:
        return Files(root) if name == writer.OWN_FOLDER else child(files, name)

    Files.child = elsewhere  # type: ignore[method-assign]


class MoodyStore:
    """A server of its own for a round; see `chaos.s3_server` for its moods."""

    root = f"s3a://{BUCKET}/unskew"

    def __init__(self, folder: Path) -> None:
        import boto3  # type: ignore[import-untyped]

        self.file = folder / "mood"
        self.be("well")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, str(Path(__file__).with_name("s3_server.py")), str(port), str(self.file)]
        with (folder / "server.log").open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        address = f"http://127.0.0.1:{port}"
        self.environment = {**ACCESS, "AWS_ENDPOINT_URL": address}
        _wait_for(port)
        names = {"aws_access_key_id": "loopback", "aws_secret_access_key": "loopback", "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=address, **names).create_bucket(Bucket=BUCKET)

    def be(self, mood: str) -> None:
        """Change the mood."""
        new = self.file.with_suffix(".new")
        new.write_text(mood)
        new.rename(self.file)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def _wait_for(port: int) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError("the S3 server did not start")
