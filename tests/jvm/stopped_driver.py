"""A driver that runs one attempt, and stops itself and its JVM with SIGSTOP at a point of one flow, as an operator or a full machine would.

``<before|after>:<step>:<flow>`` stops at a step, as in `tests.chaos.driver`; ``behind:<part of an address>:<flow>`` stops between the last
check of the leases and the commit to that table; ``never`` stops nowhere. It ends with the exit code of a job.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from tests.fault_points import fault
from tidegate.checkpoints import lease, object_lease
from tidegate.environment import Environment
from tidegate.processes import exit_now
from tidegate.requests.launch import submit_conf
from tidegate.requests.request import fresh_id
from tidegate.spark import run_pipeline
from tidegate.spark.driver.session import build_session
from tidegate.spark.lake import column_types, writes
from tidegate.testing.session import SMALL_DATA_CONF

TTL_SECONDS = 10.0
"""Of the leases, in place of a minute."""


def main() -> None:
    at, marker, dag_id, run_key, request_id = sys.argv[1:]
    object_lease.TTL_SECONDS = TTL_SECONDS
    environment = Environment.read()
    project = dataclasses.replace(environment, project=Path(__file__).parents[2])
    session = build_session(project, "tidegate stopped", submit_conf(project, small=True) | SMALL_DATA_CONF)
    jvm: Any = session._jvm
    pid = int(jvm.java.lang.ProcessHandle.current().pid())

    def stop(_: Any = None) -> None:
        Path(marker).write_text(at)
        os.kill(pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)

    kind, _, where = at.partition(":")
    point: AbstractContextManager[None] = nullcontext()
    if kind == "behind":
        point = behind_the_leases(where.rpartition(":")[0], stop)
    elif kind != "never":
        point = fault(at, stop)
    arguments = {"--dag-id": dag_id, "--run-key": run_key, "--request": request_id, "--attempt": fresh_id("a")}
    with point:
        code = run_pipeline.main([text for pair in arguments.items() for text in pair])
    exit_now(code)


@contextmanager
def behind_the_leases(part: str, act: Any) -> Iterator[None]:
    """Call a function once, after the last check of the leases before a commit to a table whose address has this part."""
    admit, addresses = column_types.admit, list[str]()

    def noting(rows: Any, address: Any) -> Any:
        addresses.append(str(address))
        return admit(rows, address)

    def checking() -> None:
        lease.expect_certain()
        if addresses and part in addresses[-1]:
            addresses.clear()
            act()

    with (
        patch.object(column_types, "admit", noting),
        patch.object(writes, "lease", SimpleNamespace(expect_certain=checking)),
    ):
        yield


if __name__ == "__main__":
    main()
