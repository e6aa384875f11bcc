"""A real S3 server in a folder, for the demo and the tests: `versitygw`, which ``make s3-server`` builds into the user's cache."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from pathlib import Path

from devstack import ports
from tidegate.advice import Command, OutsideAct
from tidegate.errors import SetupError

REGION = "us-east-1"
_SCRIPT = Path(__file__).parents[1] / "scripts" / "s3_server.sh"
_START_SECONDS = 60.0
_POLL_SECONDS = 0.02


def built() -> Path:
    """The server's program.

    Raises:
        SetupError: It was not built.
    """
    result = subprocess.run([_SCRIPT], capture_output=True, text=True, check=False)
    if result.returncode:
        raise SetupError("The S3 server is not built", Command.make("s3-server", says="run `{}`, which needs Go"))
    return Path(result.stdout.strip())


class S3Process:
    """One server with random keys. It can be killed, and started again with its data.

    Args:
        program: `built`.
        folder: For its data and its log. A key is a path below it: a short one leaves room for long keys.
    """

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
        """Start the server and wait until it accepts connections.

        Raises:
            SetupError: It ended, or does not accept any within a minute.
        """
        (self.folder / "buckets").mkdir(exist_ok=True)
        address = f"{ports.LOOPBACK}:{self._port}"
        # Without --keep-alive: with it, one in five of pyarrow's uploads gets a 400 for a request that it cannot parse.
        command = [str(self._program), "--quiet", "--port", address, "--region", REGION]
        # The keys are not on the command line, which all users of the machine can read.
        keys = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                # Without O_TMPFILE: with it, an object being replaced has a second name beside it, which listings show.
                [*command, "posix", "--disableotmp", str(self.folder / "buckets")],
                env={**os.environ, **keys},
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _START_SECONDS
        while not ports.listens(self._port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                tail = (self.folder / "log").read_text()[-2000:]
                raise SetupError(f"The S3 server does not start: {tail}", OutsideAct("see its log"))
            time.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        """End the server at once, in the middle of requests; its data stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
