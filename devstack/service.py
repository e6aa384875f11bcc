"""Background commands that keep running after their starter has ended, and that any process can find and stop.

The leader is recorded in a file (process id and start time). Its descendants are identified by their session or by an inherited
environment variable. So a process is found if it left the session (a Spark application), if it changed its process title,
which overwrites the environment that other processes can read (an Airflow worker), and if its parent was killed.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.processes import Process, end, living

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import psutil

MARK = "TIDEGATE_PART_OF"
"""The environment variable of all processes of a service. Its value is ``<service> of <folder>``."""
_ORPHAN_SECONDS = 5.0
"""Time for the orphans of an earlier start to exit after SIGTERM."""
_TAIL_CHARACTERS = 3000
_STEADY_SECONDS = 300.0
_LONGEST_DELAY = 60.0


@dataclass(frozen=True, kw_only=True)
class Service:
    """One background command with a folder for its files."""

    name: str
    command: tuple[str, ...]
    folder: Path
    """The folder of its log and its process id file; readable only by the owner."""

    @property
    def log(self) -> Path:
        """Its output since the last start; the output before that is in ``.log.1``."""
        return self.folder / f"{self.name}.log"

    @property
    def leader(self) -> Process | None:
        """The process of the command; None when it does not run."""
        recorded = Process.read(self.folder / f"{self.name}.pid")
        return recorded if recorded is not None and recorded.alive else None

    def start(self, environment: Mapping[str, str], cwd: Path) -> None:
        """Start it in a session of its own, unless it runs. Orphans of an earlier start are stopped first.

        Args:
            environment: Its complete environment.
        """
        if self.leader is not None:
            return
        stop([self], grace=_ORPHAN_SECONDS)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            popen = subprocess.Popen(
                self.command,
                env={**environment, MARK: self._mark},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=subprocess.STDOUT,
                # It must not receive SIGINT and SIGHUP of this terminal.
                start_new_session=True,
                umask=0o077,
            )
        finally:
            os.close(descriptor)
        if (leader := Process.of(popen.pid)) is not None:
            leader.write(self.folder / f"{self.name}.pid")

    def log_tail(self) -> str:
        """The end of its log."""
        try:
            return self.log.read_text(encoding="utf-8", errors="replace")[-_TAIL_CHARACTERS:]
        except OSError:
            return "(empty)"

    @property
    def _mark(self) -> str:
        return f"{self.name} of {self.folder}"

    @property
    def _session(self) -> int | None:
        """The session of the last start, also when its leader has ended; None when the id was reused."""
        leader = Process.read(self.folder / f"{self.name}.pid")
        if leader is None:
            return None
        now = Process.of(leader.pid)
        return leader.pid if now is None or now == leader else None


def keep_running(
    services: Iterable[Service], environment: Mapping[str, str], cwd: Path, *, first_delay: float = 1.0
) -> Iterator[str]:
    """Start services again that have ended, for ever. Yields a line for each start, and an empty one after each look.

    A service that ends again soon after its start waits longer and longer, up to a minute; one that ran for five minutes starts
    at once.

    Args:
        first_delay: Seconds between two looks, and before the first new start.
    """
    services = list(services)
    ended: dict[str, float] = {}
    started: dict[str, float] = {}
    delays: dict[str, float] = {}
    while True:
        now = time.monotonic()
        for service in services:
            name = service.name
            if service.leader is not None:
                ended.pop(name, None)
                continue
            if name not in ended:
                ended[name] = now
                healthy = now - started.get(name, -_STEADY_SECONDS) >= _STEADY_SECONDS
                delays[name] = first_delay if healthy else min(delays[name] * 2, _LONGEST_DELAY)
            if now - ended[name] >= delays[name]:
                service.start(environment, cwd)
                started[name] = time.monotonic()
                del ended[name]
                yield f"{name} had ended and was started again; the end of its log is in {name}.log.1"
        yield ""
        time.sleep(first_delay)


def stop(services: Iterable[Service], *, grace: float) -> int:
    """Stop services and their descendants: SIGTERM to all processes, then SIGKILL to those that still run.

    Args:
        services: The services; those that do not run are ignored.
        grace: Seconds between the two signals.

    Returns:
        The number of processes.
    """
    services = list(services)
    count = end(lambda: processes(services), grace=grace)
    for service in services:
        (service.folder / f"{service.name}.pid").unlink(missing_ok=True)
    return count


def processes(services: Iterable[Service]) -> list[psutil.Process]:
    """The living processes of services, found by session or environment variable, without the current process."""
    services = list(services)
    marks = {service._mark for service in services}
    sessions = {session for service in services if (session := service._session) is not None}

    def belongs(process: psutil.Process) -> bool:
        # The environment of another user's process cannot be read; such a process is not part of a service.
        return process.pid != os.getpid() and (
            os.getsid(process.pid) in sessions or process.environ().get(MARK) in marks
        )

    return living(belongs)
