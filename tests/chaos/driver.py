"""A driver that runs one attempt for real and, at one step of one micro-batch, SIGKILLs itself and its JVM or waits."""

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

FOR_FEW_ROWS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""As the tests' own session: compiling plans costs more than it saves."""


def main() -> None:
    at, batch, marker, dag_id, run_key, request_id = sys.argv[1:]
    when, _, step = at.partition(":")

    def act(context: Any) -> None:
        Path(marker).write_text(at)
        if when == "hold":
            # Whoever waits for the marker ends this process.
            threading.Event().wait()
        kill(context)

    environment = Environment.read()
    # As a small run is started: from the archive and without the optimizing compiler. A kill comes sooner that way.
    project = dataclasses.replace(environment, project=Path(__file__).parents[2])
    build_session(project, "tidegate chaos", submit_conf(project, small=True) | FOR_FEW_ROWS)
    request = RunRequest.read(Layout.of(environment), dag_id, run_key, request_id)
    with fault(f"before:{step}" if when == "hold" else at, act, batch=int(batch)):
        run_job(environment, request, fresh_id("a"))


def kill(context: Any) -> None:
    """The JVM first: it is what commits."""
    jvm = int(context.spark._jvm.java.lang.ProcessHandle.current().pid())
    os.kill(jvm, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
