"""A command that runs on when whoever started it has ended, and that can be found and stopped from anywhere.

Its leader is known by a file (id and start time). Whatever it starts is known by its session, and by a variable that
all of them inherit, so nothing is lost sight of: neither what left the session, as a Spark application does, nor what
gave itself another title, as a worker of Airflow does (that overwrites the variables that others can see), nor what a
killed parent left behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.embedded.processes import Process

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import psutil

MARK = "TIDEGATE_PART_OF"
"""The variable: ``<service> of <folder>``."""
_POLL_SECONDS = 0.05
_KILL_SECONDS = 5.0
_TAIL_CHARACTERS = 3000


@dataclass(frozen=True, kw_only=True)
class Service:
    """One command on one folder."""

    name: str
    command: tuple[str, ...]
    folder: Path
    """Where its log and the file that says who runs it lie; readable by the owner alone."""

    @property
    def log(self) -> Path:
        """All that it says, of this start and of the one before."""
        return self.folder / f"{self.name}.log"

    @property
    def leader(self) -> Process | None:
        """The process of the command; None when it does not run."""
        found = Process.read(self.folder / f"{self.name}.pid")
        return found if found is not None and found.alive else None

    def start(self, environment: Mapping[str, str], cwd: Path) -> None:
        """Start it in a session of its own, unless it runs. What a killed one left behind is stopped first.

        Args:
            environment: Its whole environment.
            cwd: Its working directory.
        """
        if self.leader is not None:
            return
        stop([self], grace=_KILL_SECONDS)
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
                # Ctrl-C in this terminal, and its end, are not for it.
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
        """The session of the last start, also when its leader is gone; None when the id is somebody else's by now."""
        leader = Process.read(self.folder / f"{self.name}.pid")
        if leader is None:
            return None
        now = Process.of(leader.pid)
        return leader.pid if now is None or now == leader else None


def stop(services: Iterable[Service], *, grace: float) -> int:
    """Stop services with all that they started: SIGTERM to all of them at once, SIGKILL for what is left.

    Args:
        services: Those that do not run are passed over.
        grace: Seconds between the two.

    Returns:
        How many processes there were.
    """
    services = list(services)
    known: set[int] = set()
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, _KILL_SECONDS)):
        until = time.monotonic() + patience
        while found := processes(services):
            # Those that were started since the last look are asked too.
            for process in found:
                if number == signal.SIGKILL or process.pid not in known:
                    with suppress(ProcessLookupError):
                        os.kill(process.pid, number)
                known.add(process.pid)
            if time.monotonic() > until:
                break
            time.sleep(_POLL_SECONDS)
    for service in services:
        (service.folder / f"{service.name}.pid").unlink(missing_ok=True)
    return len(known)


def processes(services: Iterable[Service]) -> list[psutil.Process]:
    """Living processes that belong to some services, but for this one: by their session, or by the variable."""
    import psutil

    services = list(services)
    marks = {service._mark for service in services}
    sessions = {session for service in services if (session := service._session) is not None}
    found = []
    for process in psutil.process_iter():
        # Somebody else's process says nothing of its environment, and is none of ours.
        with suppress(psutil.Error, OSError):
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if os.getsid(process.pid) in sessions or process.environ().get(MARK) in marks:
                found.append(process)
    return found
