"""A driver that runs one attempt for real and SIGKILLs itself and its JVM at one step of one micro-batch."""

from __future__ import annotations

import dataclasses
import functools
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tidegate.environment import Environment
from tidegate.launch import submit_conf
from tidegate.layout import Layout
from tidegate.request import RunRequest, fresh_id
from tidegate.spark import flow as flow_module
from tidegate.spark.batch import micro_batch
from tidegate.spark.driver.session import build_session
from tidegate.spark.job import run_job
from tidegate.spark.reprocessing import reentry


def main() -> None:
    at, batch, marker, dag_id, run_key, request_id = sys.argv[1:]
    when, step, flow = at.split(":")
    module: Any = next(each for each in (micro_batch, reentry, flow_module) if hasattr(each, step))
    original = getattr(module, step)
    reached = -1

    @functools.wraps(original)
    def watched(context: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal reached
        if context.flow.name == flow:
            reached += 1
        due = context.flow.name == flow and reached == int(batch)
        if due and when == "before":
            kill(context, Path(marker), at)
        if due and when == "hold":
            Path(marker).write_text(at)
            time.sleep(120)
        result = original(context, *arguments, **named)
        if due and when == "after":
            kill(context, Path(marker), at)
        return result

    setattr(module, step, watched)
    environment = Environment.read()
    # As a small run is started: from the archive and without the optimizing compiler. A kill comes sooner that way.
    project = dataclasses.replace(environment, project=Path(__file__).parents[2])
    build_session(project, "tidegate chaos", submit_conf(project, small=True))
    request = RunRequest.read(Layout.of(environment), dag_id, run_key, request_id)
    run_job(environment, request, fresh_id("a"))


def kill(context: Any, marker: Path, at: str) -> None:
    """The JVM first: it is what commits."""
    marker.write_text(at)
    jvm = int(context.spark._jvm.java.lang.ProcessHandle.current().pid())
    os.kill(jvm, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
