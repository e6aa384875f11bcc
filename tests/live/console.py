"""`make up`, `make status` and `make down` in a test's project, and the commands of docs/guides/scheduling.md."""

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

from devstack.airflow_server import PORT
from devstack.ports import LOOPBACK, is_free
from tests.docs import guides
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.processes import Process, end, living

GUIDE = guides.GUIDES / "scheduling.md"
_FOLDERS = {"broker": ".data/broker", "feeder": ".data/feeder"}


class Console:
    """A shell in a project; a variable that one command exports is set for the next.

    Args:
        folder: The project.
        environment: Initial variables of the shell.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        # The copied project has no virtual environment, so `make` is replaced by a script that uses this one.
        make = folder.with_name("bin") / "make"
        make.parent.mkdir(exist_ok=True)
        words = [sys.executable, "-m", "demo.console", "--project", str(folder)]
        make.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        make.chmod(0o755)
        path = os.pathsep.join([str(make.parent), environment["PATH"]])
        # PYTHONPATH replaces an installation of the copied project.
        self._environment = environment | {"PATH": path, "PYTHONPATH": str(folder)}
        self._exported = folder.with_name("exported")
        self._exported.touch()

    def follow(self, begin: str) -> str:
        """Run the guide's command with this beginning, as `follow_step` does."""
        return self.follow_step(next(step for step in guides.steps(GUIDE) if step.command.startswith(begin)))

    def follow_step(self, step: guides.Step) -> str:
        """Run a command of the guide; fails unless it prints the guide's output."""
        output = self.shell(step.command)
        guides.check(GUIDE, step, 0, output)
        return output

    def shell(self, command: str) -> str:
        """Run a command and return its output; fails if its exit code is not 0."""
        process = self.begin(command)
        output, _ = process.communicate(timeout=2 * TIMEOUT_SECONDS)
        assert process.returncode == 0, f"$ {command}\n{output}"
        return output

    def begin(self, command: str) -> subprocess.Popen[str]:
        """Start a command in a new process group, without waiting for its end."""
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
            # If the tests run in the background of a shell, SIGINT is ignored, and child processes would inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # this process has one thread
        )

    def first_up(self) -> str:
        """`make up` as in the guide, while another program uses the default port; then stop the feeder."""
        with contextlib.ExitStack() as stack:
            if is_free(PORT):
                stack.enter_context(socket.create_server((LOOPBACK, PORT)))
            output = self.follow("make up")
        # The landing zone must not change while tests compare it with the tables.
        feeder_log = self.folder / ".data/feeder/feeder.log"
        wait_until(lambda: "clickstream: " in feeder_log.read_text(), "the feeder sends clicks")
        self.kill("feeder")
        return output

    def is_running(self, name: str) -> bool:
        """Whether a component (of Airflow, the feeder or the broker) is running."""
        recorded = self._recorded(name)
        return recorded is not None and recorded.alive

    def leader(self, name: str) -> psutil.Process:
        """The process of a component."""
        recorded = self._recorded(name)
        assert recorded is not None
        return psutil.Process(recorded.pid)

    def _recorded(self, name: str) -> Process | None:
        return Process.read(self.folder / _FOLDERS.get(name, ".airflow/services") / f"{name}.pid")

    def kill(self, name: str) -> None:
        """Send SIGKILL to a component, and wait until it has exited."""
        leader = self.leader(name)
        end(lambda: living(lambda process: process == leader), grace=0)

    def processes(self) -> list[psutil.Process]:
        """All processes that belong to this project, Spark applications included."""

        def belongs(process: psutil.Process) -> bool:
            words = [*process.cmdline(), process.environ().get("TIDEGATE_PROJECT", ""), process.cwd()]
            return any(str(self.folder) in word for word in words)

        return living(belongs)

    def remove(self) -> None:
        """Stop all processes of the project, also after a failed test."""
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            self.shell("make down")
        end(self.processes, grace=0)
