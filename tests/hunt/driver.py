"""A driver process of a history: one attempt at one request, which another process kills at any moment.

Arguments: the folder with the edited files, the file that gets the process id of its JVM when the job begins, and the names of
the request. Ends with 1 if a flow failed.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from tests.hunt.project import Project
from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.requests.launch import submit_conf
from tidegate.requests.request import RunRequest, fresh_id
from tidegate.spark.application import run_application
from tidegate.spark.driver.session import build_session
from tidegate.testing.session import SMALL_DATA_CONF


def main() -> None:
    folder, marker, dag_id, run_key, request_id = sys.argv[1:]
    environment = Environment.read()
    Project(Path(folder), environment.project / "expectations", "").load()
    project = dataclasses.replace(environment, project=Path(__file__).parents[2])
    spark = build_session(project, "tidegate hunt", submit_conf(project, small=True) | SMALL_DATA_CONF)
    assert spark._jvm is not None
    Path(marker).write_text(str(spark._jvm.java.lang.ProcessHandle.current().pid()))
    request = RunRequest.read(Layout.of(environment), dag_id, run_key, request_id)
    report = run_application(environment, request, fresh_id("a"))
    sys.exit(any(flow.error for flow in report.flows))


if __name__ == "__main__":
    main()
