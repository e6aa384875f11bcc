"""The attempt that a task belongs to, and the report of that attempt.

``run`` generates an attempt id for every try and pushes it as an XCom before it submits. The other tasks read the report of
exactly that attempt, so no task takes its state from an earlier one.
"""

from __future__ import annotations

from airflow.sdk import Context

from tidegate.environment import Environment
from tidegate.lake.layout import Layout, run_key
from tidegate.lake.place import AttemptPlace
from tidegate.reports.report import RunReport

QUARANTINE = "quarantine"
"""The id of the DAG that replays and closes quarantine entries of all pipelines."""
ALERTS = "alerts"
"""The id of the DAG that watches all pipelines."""
PLAN = "plan"
"""The id of the task that decides whether there is work."""
RUN = "run"
"""The id of the task that runs the Spark application."""

REQUEST_KEY = "request"
"""XCom of `plan`: the id of the checked request."""
REASON_KEY = "reason"
"""XCom of `plan`: one line that says why there is work or none."""
ATTEMPT_KEY = "attempt"
"""XCom of `run`: the id of the attempt that the last try made."""

PIPELINE_KEY = "pipeline"
"""XCom of `run`: the name of the pipeline, which cannot be derived from the DAG id in the DAG `quarantine`."""


def layout() -> Layout:
    """The paths of this deployment's lake."""
    return Layout.of(Environment.read())


def attempt_id(context: Context) -> str | None:
    """The id of the last attempt of ``run`` in this DAG run; None when there is none yet."""
    value = context["ti"].xcom_pull(task_ids=RUN, key=ATTEMPT_KEY)
    return value if isinstance(value, str) else None


def request_id(context: Context) -> str | None:
    """The id of the request that ``plan`` wrote for this DAG run; None when there is none."""
    value = context["ti"].xcom_pull(task_ids=PLAN, key=REQUEST_KEY)
    return value if isinstance(value, str) else None


def key_of(context: Context) -> tuple[str, str]:
    """The pipeline's name and the run key (the folder name of this DAG run).

    A pipeline's DAG id is its name. The DAG `quarantine` serves all pipelines; there the name is a Param that `plan` has checked.
    """
    dag_run = context["dag_run"]
    name = context["params"]["pipeline"] if dag_run.dag_id == QUARANTINE else dag_run.dag_id
    return name, run_key(dag_run.run_id)


def report_of_attempt(context: Context) -> RunReport | None:
    """The report of the last attempt in this DAG run; None when there is no attempt or it wrote no report."""
    attempt = attempt_id(context)
    if attempt is None:
        return None
    dag_id, key = key_of(context)
    return RunReport.read(AttemptPlace(layout(), dag_id, key, attempt).report)
