"""A driver process that runs one attempt and, at one step of one micro-batch, SIGKILLs itself and its JVM or waits."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from tests.fault_points import fault
from tidegate.environment import Environment
from tidegate.launch import submit_conf
from tidegate.layout import Layout
from tidegate.request import RunRequest, fresh_id
from tidegate.spark.driver.session import build_session
from tidegate.spark.job import run_job
from tidegate.testing.session import SMALL_DATA_CONF


def main() -> None:
    at, batch, marker, dag_id, run_key, request_id = sys.argv[1:]
    when, _, step = at.partition(":")

    def act(context: Any) -> None:
        Path(marker).write_text(at)
        if when == "hold":
            # The process that waits for the marker file ends this one.
            threading.Event().wait()
        kill(context)

    environment = Environment.read()
    # The settings of a small run (AppCDS archive, C1 only) start faster.
    project = dataclasses.replace(environment, project=Path(__file__).parents[2])
    build_session(project, "tidegate chaos", submit_conf(project, small=True) | SMALL_DATA_CONF)
    request = RunRequest.read(Layout.of(environment), dag_id, run_key, request_id)
    with fault(f"before:{step}" if when == "hold" else at, act, batch=int(batch)):
        run_job(environment, request, fresh_id("a"))


def kill(context: Any) -> None:
    """SIGKILL the JVM first, because it makes the commits, then this process."""
    jvm = int(context.spark._jvm.java.lang.ProcessHandle.current().pid())
    os.kill(jvm, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
