"""A driver process that runs one attempt and, at one step of one micro-batch, SIGKILLs itself and its JVM or waits.

``<before|after>:<step>:<flow>`` kills at the step, ``hold:<step>:<flow>`` waits before it. ``storing:<step>:<flow>`` kills while the
step stores the state of a stateful flow, when the first of its partitions is on the disk.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.fault_points import fault
from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.requests.launch import submit_conf
from tidegate.requests.request import RunRequest, fresh_id
from tidegate.spark.application import run_application
from tidegate.spark.driver.session import build_session
from tidegate.store import Address
from tidegate.testing.session import SMALL_DATA_CONF


def main() -> None:
    at, batch, marker, dag_id, run_key, request_id = sys.argv[1:]
    when, _, step = at.partition(":")

    def act(job: Any) -> None:
        jvm = int(job.spark._jvm.java.lang.ProcessHandle.current().pid())
        if when == "storing":
            threading.Thread(target=kill_while_storing, args=(job.place.checkpoint / "state", jvm)).start()
            return
        Path(marker).write_text(at)
        if when == "hold":
            # The process that waits for the marker file ends this one.
            threading.Event().wait()
        kill(jvm)

    def kill_while_storing(state: Address, jvm: int) -> None:
        wait_for_a_partition(state)
        Path(marker).write_text(at)
        kill(jvm)

    environment = Environment.read()
    # The settings of a small run (AppCDS archive, C1 only) start faster.
    project = dataclasses.replace(environment, project=Path(__file__).parents[2])
    build_session(project, "tidegate chaos", submit_conf(project, small=True) | SMALL_DATA_CONF)
    request = RunRequest.read(Layout.of(environment), dag_id, run_key, request_id)
    with fault(f"before:{step}" if when in ("hold", "storing") else at, act, batch=int(batch)):
        run_application(environment, request, fresh_id("a"))


def kill(jvm: int) -> None:
    """SIGKILL the JVM first, because it makes the commits, then this process."""
    os.kill(jvm, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for_a_partition(state: Address) -> None:
    """Wait until Spark has stored the changes of one more partition of the state."""
    before = stored_changes(state)
    while stored_changes(state) == before:
        time.sleep(0.001)


def stored_changes(state: Address) -> int:
    return sum(entry.name.endswith(".changelog") for entry in state.walk())


if __name__ == "__main__":
    main()
