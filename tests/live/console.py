"""`make up`, `make status` and `make down` in a project of a test, and the commands of the guide to schedules."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil

from tests.docs import guides
from tests.patience import PATIENCE, until
from tidegate.embedded.airflow_server import PORT
from tidegate.embedded.ports import LOOPBACK, is_free
from tidegate.embedded.processes import Process

GUIDE = guides.GUIDES / "scheduling.md"
_FOLDERS = {"broker": ".data/broker", "feeder": ".data/feeder"}


class Console:
    """A person's shell in a project: what one command exports is there for the next.

    Args:
        folder: The project.
        environment: The variables of the shell.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        # The copy has no environment of its own that `make setup` could look after.
        make = folder.with_name("bin") / "make"
        make.parent.mkdir(exist_ok=True)
        words = [sys.executable, "-m", "demo.console", "--project", str(folder)]
        make.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        make.chmod(0o755)
        path = os.pathsep.join([str(make.parent), environment["PATH"]])
        # PYTHONPATH stands in place of an installation of this project.
        self._environment = environment | {"PATH": path, "PYTHONPATH": str(folder)}
        self._exported = folder.with_name("exported")
        self._exported.touch()

    def follow(self, begin: str) -> str:
        """Give the command of the guide that begins so, as `follow_step` does."""
        return self.follow_step(next(step for step in guides.steps(GUIDE) if step.command.startswith(begin)))

    def follow_step(self, step: guides.Step) -> str:
        """Give a command of the guide; fails unless it prints what the guide shows."""
        output = self.shell(step.command)
        guides.check(GUIDE, step, 0, output)
        return output

    def shell(self, command: str) -> str:
        """Give a command, and return what it printed; fails when the command does."""
        begun = self.begin(command)
        output, _ = begun.communicate(timeout=2 * PATIENCE)
        assert begun.returncode == 0, f"$ {command}\n{output}"
        return output

    def begin(self, command: str) -> subprocess.Popen[str]:
        """Give a command, and do not wait for its end. It leads a group of processes."""
        exported = shlex.quote(str(self._exported))
        keep = f"source {exported}; trap {shlex.quote(f'export -p >{exported}')} EXIT\n"
        return subprocess.Popen(
            ["bash", "-c", keep + command],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # Tests that run in the background of a shell would hand down that it is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # this process has one thread
        )

    def first_up(self) -> str:
        """`make up` as the guide shows it, while another program has the usual port; what the feeder landed stays all."""
        with contextlib.ExitStack() as taken:
            if is_free(PORT):
                taken.enter_context(socket.create_server((LOOPBACK, PORT)))
            output = self.follow("make up")
        # Else the landing zone would change while tests look at what was made of it.
        feeder_log = self.folder / ".data/feeder/feeder.log"
        until(lambda: "clicks: " in feeder_log.read_text(), "the feeder sends clicks")
        self.kill("feeder")
        return output

    def is_running(self, name: str) -> bool:
        """Whether a component of Airflow, the feeder or the broker runs."""
        recorded = self._recorded(name)
        return recorded is not None and recorded.alive

    def leader(self, name: str) -> psutil.Process:
        """Its process."""
        recorded = self._recorded(name)
        assert recorded is not None
        return psutil.Process(recorded.pid)

    def _recorded(self, name: str) -> Process | None:
        return Process.read(self.folder / _FOLDERS.get(name, ".airflow/services") / f"{name}.pid")

    def kill(self, name: str) -> None:
        """SIGKILL, and wait until it is gone."""
        process = self.leader(name)
        process.send_signal(signal.SIGKILL)
        psutil.wait_procs([process], timeout=PATIENCE)

    def processes(self) -> list[psutil.Process]:
        """All that runs in or for this project, Spark applications included."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                known = " ".join(process.cmdline()) + process.environ().get("TIDEGATE_PROJECT", "") + process.cwd()
                if str(self.folder) in known and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def remove(self) -> None:
        """Stop all that still runs, also after a test that failed half-way."""
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            self.shell("make down")
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
