"""A real Postgres in a folder of its own, for tests of sinks."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from devstack.ports import free_port
from tests import server_programs


class Postgres:
    """One server with an empty database. It can be stopped and started again.

    Args:
        programs: The folder of its programs.
        folder: For its data and its log.
        user: Its only user.
        password: Which it asks for; empty: it asks for none.
    """

    def __init__(self, programs: Path, folder: Path, user: str = "tests", password: str = "") -> None:
        self._programs, self._folder, self.port = programs, folder, free_port()
        self._login = f"{user}:{password}" if password else user
        # Postgres refuses to run as root.
        self._user: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
        login = ["--auth=trust"]
        if password:
            file = folder / "password"
            file.write_text(password)
            login = ["--auth=scram-sha-256", f"--pwfile={file}"]
            if self._user:
                shutil.chown(file, **self._user)
        self._run("initdb", f"--username={user}", *login, "--no-sync", "--encoding=UTF8", "--locale=C")

    @property
    def address(self) -> str:
        """For clients."""
        return f"postgresql://{self._login}@127.0.0.1:{self.port}/postgres"

    @property
    def log(self) -> str:
        """What it says."""
        return (self._folder / "log").read_text()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        self._run("pg_ctl", "start", "--wait", f"--log={self._folder}/log", f"--options={settings}")

    def stop(self) -> None:
        """Stop the server, whose data stays."""
        self._run("pg_ctl", "stop", "--wait", "--mode=fast")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), f"--pgdata={self._folder}/data", *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self._folder, **self._user)


@contextmanager
def postgres(user: str = "tests", password: str = "") -> Iterator[Postgres]:
    """A running server, with arguments of `Postgres`."""
    programs = server_programs.folder_of("initdb", "postgresql")
    # The folders of pytest are closed to other users.
    folder = Path(tempfile.mkdtemp(prefix="tidegate-postgres-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        server = Postgres(programs, folder, user, password)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)
