"""A real S3 server as a process: moto, which checks each signature against the keys that it has made itself.

running_s3(folder)    the server, with one user who may do everything in one bucket, and one who may do nothing
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

BUCKET = "holdfast"
REGION = "eu-central-1"
ASKED_FREELY = 6  # calls by which the users are made, before any signature is asked for
EVERYTHING = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}


@dataclass
class S3:
    """`good`, `denied`: files with credentials."""

    url: str
    good: Path
    denied: Path
    process: subprocess.Popen
    client: object = field(repr=False, default=None)
    _read: dict[tuple[str, str], bytes] = field(repr=False, default_factory=dict)

    @property
    def bucket(self) -> str:
        return f"{self.url}/{BUCKET}"

    def keys(self) -> dict[str, bytes]:
        """All that lies there. What the server lists under the checksum of what was read once is not read again."""
        self._read = {listed: self._read.get(listed) or self._get(listed[0]) for listed in self._listed()}
        return {key: data for (key, _), data in self._read.items()}

    def _get(self, key: str) -> bytes:
        return self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def clear(self) -> None:
        names = [key for key, _ in self._listed()]
        if names:
            self.client.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in names]})

    def _listed(self) -> list[tuple[str, str]]:
        """Names, each with its checksum."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [(entry["Key"], entry["ETag"]) for page in pages for entry in page.get("Contents", ())]

    def put(self, key: str, data: bytes) -> None:
        self.client.put_object(Bucket=BUCKET, Key=key, Body=data)

    def remove(self, *keys: str) -> None:
        for key in keys:
            self.client.delete_object(Bucket=BUCKET, Key=key)


@contextmanager
def running_s3(folder: Path) -> Iterator[S3]:
    boto3 = pytest.importorskip("boto3")
    pytest.importorskip("moto")
    port = _free_port()
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(ASKED_FREELY)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _until_it_answers(url)

        def client(service: str, key_id: str, secret: str):
            return boto3.client(
                service,
                endpoint_url=url,
                region_name=REGION,
                aws_access_key_id=key_id,
                aws_secret_access_key=secret,
            )

        iam = client("iam", "free", "free")
        made = {}
        for name in ("good", "denied"):
            iam.create_user(UserName=name)
            key = iam.create_access_key(UserName=name)["AccessKey"]
            made[name] = key["AccessKeyId"], key["SecretAccessKey"]
        iam.put_user_policy(UserName="good", PolicyName="all", PolicyDocument=json.dumps(EVERYTHING))
        own = client("s3", *made["good"])
        own.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        files = {name: write_credentials(folder / f"{name}.credentials", *made[name]) for name in made}
        yield S3(url, files["good"], files["denied"], process, own)
    finally:
        process.kill()
        process.wait()


def write_credentials(path: Path, key_id: str, secret: str) -> Path:
    path.write_text(f"[default]\naws_access_key_id = {key_id}\naws_secret_access_key = {secret}\n")
    return path


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def _until_it_answers(url: str) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(httpx.TransportError):
            httpx.get(f"{url}/moto-api/", trust_env=False)
            return
        time.sleep(0.05)
    raise AssertionError("the S3 server did not start")
