"""Durable files on S3, or on what speaks its language, through boto3."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import pyarrow as pa

from unskew.state.arrow_place import s3_endpoint, s3_region

_KINDS: dict[str, type[Exception]] = {
    **dict.fromkeys(("NoSuchKey", "404", "NotFound"), FileNotFoundError),
    **dict.fromkeys(("PreconditionFailed", "412"), FileExistsError),
    **dict.fromkeys(("InvalidRange", "416"), EOFError),
}


@dataclass(frozen=True)
class S3:
    """A prefix in a bucket. Endpoint, region and credentials come from the environment.

    Every call is one request, and a put is durable when it returns. A create carries ``If-None-Match: *``, which S3
    refuses with 412 if there is such an object.
    """

    bucket: str
    prefix: str

    def create(self, name: str, data: bytes) -> bool:
        try:
            self.write(name, data, IfNoneMatch="*")
        except FileExistsError:
            return False
        return True

    def write(self, name: str, data: bytes, **condition: str) -> None:
        with self._asking(name) as (client, key):
            client.put_object(Bucket=self.bucket, Key=key, Body=data, **condition)

    def replace(self, name: str, data: bytes) -> None:
        self.write(name, data)

    def read(self, name: str) -> bytes:
        with self._asking(name) as (client, key):
            return bytes(client.get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def read_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        if length == 0:
            return pa.py_buffer(b"")
        part = f"bytes={offset}-{offset + length - 1}"
        try:
            with self._asking(name) as (client, key):
                return pa.py_buffer(client.get_object(Bucket=self.bucket, Key=key, Range=part)["Body"].read())
        except EOFError:
            return pa.py_buffer(b"")

    def names(self, folder: str) -> list[str]:
        found: list[str] = []
        with self._asking(folder) as (client, key):
            start = f"{key}/" if key else ""
            for page in self._pages(client, start, Delimiter="/"):
                found += [each["Key"] for each in page.get("Contents", [])]
                found += [each["Prefix"] for each in page.get("CommonPrefixes", [])]
        return [name for each in found if (name := each.removeprefix(start).rstrip("/"))]

    def exists(self, name: str) -> bool:
        try:
            with self._asking(name) as (client, key):
                client.head_object(Bucket=self.bucket, Key=key)
        except FileNotFoundError:
            return False
        return True

    def remove(self, name: str) -> None:
        with self._asking(name) as (client, key):
            client.delete_object(Bucket=self.bucket, Key=key)  # succeeds if there is none, too

    def remove_folder(self, name: str) -> None:
        with self._asking(name) as (client, key):
            for page in self._pages(client, f"{key}/"):
                keys = [{"Key": each["Key"]} for each in page.get("Contents", [])]
                if keys:
                    answer = client.delete_objects(Bucket=self.bucket, Delete={"Objects": keys, "Quiet": True})
                    for failed in answer.get("Errors", []):
                        raise OSError(f"{failed['Key']} cannot be deleted: {failed.get('Message', failed.get('Code'))}")

    def _pages(self, client: Any, prefix: str, **options: str) -> Any:
        return client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix, **options)

    @contextmanager
    def _asking(self, name: str) -> Iterator[tuple[Any, str]]:
        """Give the client and the key; turn boto3's errors into those of the operating system."""
        errors = import_module("botocore.exceptions")
        key = "/".join(part for part in (self.prefix.strip("/"), name) if part)
        try:
            yield _client(os.getpid(), s3_endpoint(), s3_region()), key
        except errors.ClientError as error:
            code = str(error.response.get("Error", {}).get("Code"))
            raise _KINDS.get(code, OSError)(str(error)) from error
        except errors.BotoCoreError as error:
            raise OSError(str(error)) from error


@lru_cache(maxsize=8)
def _client(_process: int, endpoint: str | None, region: str | None) -> Any:
    style = {"addressing_style": "path"} if endpoint else {}  # as Arrow does: few such servers have a name per bucket
    config = import_module("botocore.config").Config(s3=style)
    session = import_module("boto3").session.Session()  # the default session is not made for several threads
    return session.client("s3", endpoint_url=endpoint, region_name=region, config=config)
