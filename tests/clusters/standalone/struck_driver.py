"""The application that spark-submit runs, in which an executor is killed at steps of flows. Its arguments are those of the product's.

``STRIKES`` in the environment are the steps with a space between them, each ``<before|after>:<step>:<flow>``. ``STRUCK`` is a file with a
line for each kill: the step, and the process that was killed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from pathlib import Path
from typing import Any

import psutil

from tests.fault_points import fault
from tests.standalone import kill_executor
from tests.waiting import wait_until
from tidegate.processes import exit_now
from tidegate.spark.run_pipeline import main


def strike(at: str, job: Any) -> None:
    """Kill the executor that has lived longest, and so may have most of what a batch keeps; the run goes on at once."""
    application = job.spark.sparkContext.applicationId
    wait_until(lambda: bool(_executors(application)), "there is an executor")
    victim = min(_executors(application), key=lambda process: process.create_time())
    kill_executor(victim)
    with Path(os.environ["STRUCK"]).open("a") as struck:
        struck.write(f"{at} {victim.pid}\n")


def _executors(application: str) -> list[psutil.Process]:
    executors = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if application in words and "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words:
            executors.append(process)
    return executors


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        for each in os.environ["STRIKES"].split():
            stack.enter_context(fault(each, functools.partial(strike, each)))
        code = main(sys.argv[1:])
    exit_now(code)
