"""A real Redis in a folder of its own, for the queues of Celery."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devstack import ports
from tests import server_programs
from tests.waiting import wait_until


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """The URL of a running server."""
    program, port = server_programs.folder_of("redis-server", "redis-server") / "redis-server", ports.free_port()
    options = {
        "bind": ports.LOOPBACK,
        "port": str(port),
        "dir": str(folder),
        "save": "",
        "logfile": str(folder / "log"),
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    process = subprocess.Popen([program, *words])
    try:
        wait_until(lambda: process.poll() is not None or ports.listens(port), "Redis accepts connections")
        yield f"redis://{ports.LOOPBACK}:{port}/0"
    finally:
        process.terminate()
        process.wait()
