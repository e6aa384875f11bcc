"""Stores in buckets of the S3 server of the tests."""

from __future__ import annotations

import secrets
from pathlib import Path

import pyarrow.fs

from tests.s3_server import REGION, S3Process
from tidegate.store import Address
from tidegate.store.objects import ObjectStore
from tidegate.store.s3 import S3Server


def new_store(server: S3Process, patience: float = 20.0, *, endpoint: str = "", **variables: str) -> ObjectStore:
    """An empty store below a prefix of a new bucket.

    Args:
        server: The server.
        patience: That of the store.
        endpoint: Of a proxy before the server.
        variables: The environment, where it is not that of the server.
    """
    environment = {**server.variables, "AWS_ENDPOINT_URL_S3": endpoint or server.endpoint, **variables}
    prefix = f"{secrets.token_hex(3)}/lake"
    return ObjectStore(S3Server(environment), server.new_bucket(), prefix, patience, pause=0.001)


def directly(store: ObjectStore, server: S3Process) -> ObjectStore:
    """The same store, without a proxy."""
    return ObjectStore(S3Server(server.variables), store.bucket, store.prefix)


def upload(folder: Path, address: Address) -> None:
    """Copy a local folder into a bucket."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            (address / str(path.relative_to(folder))).put(path.read_bytes())


def arrow_files(server: S3Process) -> pyarrow.fs.S3FileSystem:
    """Another client of the server, which makes what a store does not."""
    return pyarrow.fs.S3FileSystem(
        access_key=server.access_key, secret_key=server.secret_key, endpoint_override=server.endpoint, region=REGION
    )
