"""The S3 server of the tests is a real one: its data survives a kill, and only this machine reaches it."""

from __future__ import annotations

import socket

import pyarrow.fs
import pytest

from tests.s3_server import REGION, S3Process, s3_process

pytestmark = pytest.mark.slow


def _client(server: S3Process) -> pyarrow.fs.S3FileSystem:
    return pyarrow.fs.S3FileSystem(
        access_key=server.access_key, secret_key=server.secret_key, endpoint_override=server.endpoint, region=REGION
    )


def test_what_was_stored_is_there_after_a_kill() -> None:
    with s3_process() as server:
        key = f"{server.new_bucket()}/a/b"
        with _client(server).open_output_stream(key) as output:
            output.write(b"content")
        server.kill()
        server.start()
        with _client(server).open_input_stream(key) as stored:
            assert stored.read() == b"content"


def test_a_client_without_the_keys_is_refused(s3_server: S3Process) -> None:
    bucket = s3_server.new_bucket()
    other = pyarrow.fs.S3FileSystem(
        access_key=s3_server.access_key, secret_key="wrong", endpoint_override=s3_server.endpoint, region=REGION
    )
    with pytest.raises(OSError, match="AWS Error"):
        other.open_output_stream(f"{bucket}/a").close()


def test_only_the_loopback_interface_reaches_it(s3_server: S3Process) -> None:
    port = int(s3_server.endpoint.rpartition(":")[2])
    with socket.socket() as other, pytest.raises(ConnectionRefusedError):
        other.settimeout(5)
        other.connect(("127.0.0.2", port))
