"""A real S3 server in a folder of its own, for tests of buckets."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from devstack import ports
from tests.waiting import wait_until

SCRIPT = Path(__file__).parents[1] / "scripts" / "s3_server.sh"
REGION = "us-east-1"


class S3Process:
    """One server with random keys. It can be killed, and started again with its data."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program, self.folder, self._port = program, folder, ports.free_port()
        self.access_key, self.secret_key = f"access-{secrets.token_hex(8)}", f"secret-{secrets.token_hex(16)}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """For clients; buckets are the first part of the path."""
        return f"http://{ports.LOOPBACK}:{self._port}"

    @property
    def variables(self) -> dict[str, str]:
        """The variables by which AWS' own tools find the server and its keys."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
        }

    def new_bucket(self) -> str:
        """The name of a new empty bucket."""
        name = f"bucket-{secrets.token_hex(6)}"
        # The server keeps buckets as folders, and takes new ones as they come.
        (self.folder / "buckets" / name).mkdir(parents=True)
        return name

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        (self.folder / "buckets").mkdir(exist_ok=True)
        address = f"{ports.LOOPBACK}:{self._port}"
        # Without --keep-alive: with it, one in five of pyarrow's uploads gets a 400 for a request that it cannot parse.
        command = [str(self._program), "--quiet", "--port", address, "--region", REGION]
        # The keys are not on the command line, which all users of the machine can read.
        keys = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "posix", str(self.folder / "buckets")], env={**os.environ, **keys}, stdout=log, stderr=log
            )
        wait_until(self._accepts_connections, "the S3 server to accept connections")

    def kill(self) -> None:
        """End the server at once, in the middle of requests; its data stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _accepts_connections(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the S3 server ended: {(self.folder / 'log').read_text()[-2000:]}")
        return ports.listens(self._port)


@contextmanager
def s3_process() -> Iterator[S3Process]:
    """A running server. Skips the test where `make s3-server` has not built one: it was not run then, and has not passed."""
    result = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.skip(result.stderr.strip())
    # A key is a path below the folder: a short one leaves room for long keys.
    folder = Path(tempfile.mkdtemp(prefix="tidegate-s3-"))
    try:
        server = S3Process(Path(result.stdout.strip()), folder)
        server.start()
        try:
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder)
