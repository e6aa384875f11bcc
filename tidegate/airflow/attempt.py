"""Which attempt a task belongs to, and what that attempt reported.

``run`` makes a fresh attempt id at every try and pushes it before it submits. Everybody else reads the report of that
attempt and of no other, so no task takes its colour from an earlier one.
"""

from __future__ import annotations

from airflow.sdk import Context

from tidegate.environment import Environment
from tidegate.layout import Layout, run_key
from tidegate.report import RunReport

QUARANTINE = "quarantine"
"""The id of the DAG that changes what was set aside, for all pipelines."""
ALERTS = "alerts"
"""The id of the DAG that watches all pipelines."""
PLAN = "plan"
"""The id of the task that decides whether there is work."""
RUN = "run"
"""The id of the task that runs the Spark application."""

REQUEST_KEY = "request"
"""XCom of `plan`: the id of the checked request."""
REASON_KEY = "reason"
"""XCom of `plan`: why there is work or none, in one sentence."""
ATTEMPT_KEY = "attempt"
"""XCom of `run`: the id of the attempt that the last try made."""

PIPELINE_KEY = "pipeline"
"""XCom of `run`: whose flows it runs, which the id of the DAG `quarantine` does not say."""


def layout() -> Layout:
    """The paths of this deployment's lake."""
    return Layout.of(Environment.read())


def attempt_id(context: Context) -> str | None:
    """The attempt that ``run`` made last in this run; None when it did not get that far."""
    found = context["ti"].xcom_pull(task_ids=RUN, key=ATTEMPT_KEY)
    return found if isinstance(found, str) else None


def request_id(context: Context) -> str | None:
    """The request that ``plan`` wrote for this run; None when there is none."""
    found = context["ti"].xcom_pull(task_ids=PLAN, key=REQUEST_KEY)
    return found if isinstance(found, str) else None


def key_of(context: Context) -> tuple[str, str]:
    """The pipeline's name and the folder name of this run.

    A pipeline's DAG has its name; that of the quarantine serves all, and a Param, which `plan` has checked, says which.
    """
    dag_run = context["dag_run"]
    name = context["params"]["pipeline"] if dag_run.dag_id == QUARANTINE else dag_run.dag_id
    return name, run_key(dag_run.run_id)


def report_of_attempt(context: Context) -> RunReport | None:
    """What this run's last attempt reported; None when there is no attempt or it wrote nothing."""
    attempt = attempt_id(context)
    if attempt is None:
        return None
    dag_id, key = key_of(context)
    return RunReport.read(layout().report(dag_id, key, attempt))
