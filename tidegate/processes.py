"""Ends processes: others by SIGTERM, a grace period, then SIGKILL; this one once its work is done.

A process in a file is identified by process id and start time. The process id alone is not enough, because the system reuses it
after the process has ended. With the start time, the orphans of a killed parent can be stopped without the risk of stopping an
unrelated process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

from tidegate import json_codec
from tidegate.store import Address

if TYPE_CHECKING:
    import psutil

_POLL_SECONDS = 0.05
_KILL_SECONDS = 5.0
"""Time for processes to disappear after SIGKILL; normally milliseconds."""
_FOLDERS: dict[Path, int] = {}
"""Temporary folders, with the process that made each."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process of this machine. A later process with the same id is not equal to it."""

    pid: int
    started: str
    """Its start time, in a format of the operating system; only for comparison."""
    namespace: str = ""
    """In which the process id means it: the machine's boot and the process namespace; empty where the system does not say."""

    @classmethod
    def named(cls, pid: int) -> Self | None:
        """As `of`, with its namespace, for readers on other machines and in other containers."""
        process = cls.of(pid)
        return None if process is None else dataclasses.replace(process, namespace=_namespace())

    @property
    def is_of_this_namespace(self) -> bool:
        """Whether this process can tell if it runs: its id means it here, too."""
        return bool(self.namespace) and self.namespace == _namespace()

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """The process with this id, or None when there is none. A zombie counts as none."""
        started = _started_linux(pid) if sys.platform == "linux" else _started_elsewhere(pid)
        return None if started is None else cls(pid=pid, started=started)

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The process that ``write`` stored in a file, or None when the file is missing or cannot be parsed."""
        return json_codec.read(Address.local(path), cls)

    def write(self, path: Path) -> None:
        """Store the process in a file, atomically."""
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.touch(mode=0o600)
        part.write_text(json_codec.encode(self) + "\n", encoding="utf-8")
        part.replace(path)

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        process = Process.of(self.pid)
        return process is not None and process.started == self.started

    def stop_group(self, grace: float) -> None:
        """Stop its process group, see `end_group`; do nothing when it has ended.

        It must lead its group, as a process that was started in a session of its own does.
        """
        if self.alive:
            end_group(self.pid, grace=grace)

    def kill_group(self) -> None:
        """Send SIGKILL to its process group."""
        self.stop_group(grace=0)


def end_group(
    group: int, *, grace: float, kill_seconds: float = _KILL_SECONDS, hurried: Callable[[], bool] = lambda: False
) -> None:
    """End all processes of a process group: SIGTERM, then SIGKILL for the remaining ones.

    Each signal goes to the whole group in one call, so that the JVM of a driver does not outlive its Python process.

    Args:
        group: The process id of the group's leader; the leader is not reaped.
        grace: Seconds between the two signals; 0 sends SIGKILL at once. Returns as soon as all processes have ended.
        kill_seconds: How long to wait after SIGKILL.
        hurried: Whether to skip the rest of the grace period.
    """
    sent: set[int] = set()

    def send(number: int, _: object) -> None:
        if number == signal.SIGKILL or number not in sent:
            sent.add(number)
            os.killpg(group, number)

    _end(lambda: members(group), send, grace, kill_seconds, hurried)


def end(find: Callable[[], list[psutil.Process]], *, grace: float) -> int:
    """End the processes that a function finds, also those that are started in the meantime; returns their number.

    Args:
        find: The living processes; called repeatedly.
        grace: Seconds between SIGTERM and SIGKILL; 0 sends SIGKILL at once.
    """
    signalled: set[psutil.Process] = set()

    def send(number: int, running: list[psutil.Process]) -> None:
        for process in running:
            if number == signal.SIGKILL or process not in signalled:
                signalled.add(process)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, number)

    _end(find, send, grace, _KILL_SECONDS, lambda: False)
    return len(signalled)


def _end(
    find: Callable[[], list[psutil.Process]],
    send: Callable[[int, list[psutil.Process]], None],
    grace: float,
    kill_seconds: float,
    hurried: Callable[[], bool],
) -> None:
    phases = ((signal.SIGTERM, grace), (signal.SIGKILL, kill_seconds))
    for number, seconds in phases if grace else phases[1:]:
        until = time.monotonic() + seconds
        while running := find():
            with contextlib.suppress(ProcessLookupError):
                send(number, running)
            if time.monotonic() > until or (number == signal.SIGTERM and hurried()):
                break
            time.sleep(_POLL_SECONDS)


def members(group: int) -> list[psutil.Process]:
    """The living processes of a process group."""
    return living(lambda process: os.getpgid(process.pid) == group)


def living(matches: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """The living processes of this machine that match; those whose attributes cannot be read are left out.

    Zombies count as ended: the orphans of a killed parent may stay unreaped for a while.
    """
    import psutil

    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if matches(process) and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
    return processes


def temporary_folder(prefix: str) -> tuple[Path, Callable[[], None]]:
    """Create a temporary folder that `exit_now` deletes, and the function that deletes it earlier.

    For what lives as long as an object: `exit_now` calls no finalizer of one.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    _FOLDERS[folder] = os.getpid()

    def delete() -> None:
        # A forked process has its own copy of the object.
        if _FOLDERS.pop(folder, None) == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)

    return folder, delete


def exit_now(code: int) -> NoReturn:
    """Delete temporary folders, flush logs, stdout and stderr, then end this process with an exit code, without finalizing the interpreter.

    Threads of native libraries (delta-rs, DuckDB, pyarrow, librdkafka) can crash during the finalization of the interpreter:
    the process would abort after its work was done, with a wrong exit code. The exit code is also wrong after a Ctrl-C during
    ``exec`` of a string, which the import of a dataclass does: ``python -m`` then dies of SIGINT even if the exception was
    handled (``run_eval_code_obj`` in CPython's Python/pythonrun.c, ``Py_RunMain`` in Modules/main.c).
    """
    # Other threads may still create and delete some.
    for folder, process in list(_FOLDERS.items()):
        if process == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        # Where the reader is gone or the disk is full the exit code alone says how the work ended.
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


def _namespace() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started_linux(pid: int) -> str | None:
    try:
        # The command's name is in parentheses and may contain any character; the fields after it do not.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    # Field 22 of the line counts clock ticks since boot, so the boot id is needed too.
    return None if fields[0] in "ZX" else f"{boot} {fields[19]}"


def _started_elsewhere(pid: int) -> str | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else str(process.create_time())
    except psutil.Error:
        return None
