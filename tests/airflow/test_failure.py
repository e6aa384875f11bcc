"""Every task fails with its message as the last lines of its log, without a traceback, and is retried only where that helps."""

from __future__ import annotations

import importlib
import pkgutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseOperator

import tidegate.airflow
from pipelines.clickstream import pipeline as clickstream
from pipelines.flights import pipeline as flights
from tidegate.airflow import build_dag
from tidegate.airflow.alerts import build_alerts_dag
from tidegate.airflow.approval import build_schema_approval
from tidegate.airflow.compat import HAS_RETRY_POLICIES, AirflowFailException, RetryAction
from tidegate.airflow.failure import TaskFailure, plain_failures
from tidegate.airflow.quarantine import build_quarantine_dag
from tidegate.airflow.retry import FailureRetryPolicy, ReportRetryPolicy
from tidegate.errors import LeaseHeldError, RequestError

pytestmark = pytest.mark.airflow


def operators() -> list[type[BaseOperator]]:
    """Every operator class of `tidegate.airflow`."""
    names = [module.name for module in pkgutil.walk_packages(tidegate.airflow.__path__, "tidegate.airflow.")]
    # It has no operator, and needs the Spark provider.
    names.remove("tidegate.airflow.cluster_submission")
    modules = [importlib.import_module(name) for name in names]
    return [
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, BaseOperator) and each.__module__ == module.__name__
    ]


def test_every_operator_fails_plainly() -> None:
    classes = operators()
    assert {each.__name__ for each in classes} >= {"PlanRun", "RunFlows", "ShowFlow", "AskPerson", "EvaluateAlerts"}
    assert [each.__name__ for each in classes if not getattr(each.execute, "plain_failures", False)] == []


def test_every_task_survives_an_airflow_that_cannot_be_reached_for_a_moment() -> None:
    dags = [
        build_dag(flights),
        build_dag(clickstream),
        build_alerts_dag(),
        build_schema_approval(),
        build_quarantine_dag(),
    ]
    tasks = [task for dag in dags for task in dag.tasks]
    assert [task.label for task in tasks if not task.retries] == []
    assert [task.label for task in tasks if task.retry_delay > timedelta(minutes=1)] == []
    if HAS_RETRY_POLICIES:
        assert [task.label for task in tasks if not isinstance(task.retry_policy, FailureRetryPolicy)] == [], (
            "without the policy, failures of its own would be retried, too"
        )


class Log:
    """Records error lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def error(self, form: str, *arguments: object) -> None:
        self.lines.append(form % arguments)


class Task:
    """An operator that raises an exception."""

    def __init__(self, raised: BaseException) -> None:
        self.raised = raised
        self.log = Log()

    @plain_failures
    def execute(self, context: Any) -> None:
        raise self.raised


@pytest.mark.parametrize(
    ("raised", "retry", "code"),
    [
        (RequestError("the window is empty"), False, 64),
        (LeaseHeldError("table silver.x", "pid 7"), True, 75),
        (TaskFailure("silver was refused\nClear it"), False, 70),
    ],
)
def test_the_message_is_logged_and_has_no_other_exception_behind_it(raised: Any, retry: bool, code: int) -> None:
    task = Task(raised)
    ends = not retry and not HAS_RETRY_POLICIES
    failure: Any
    with pytest.raises(AirflowFailException if ends else TaskFailure) as failure:
        task.execute({})
    assert task.log.lines == raised.message.splitlines()
    assert str(failure.value) == raised.message, "callbacks show it"
    if ends:
        return
    assert (failure.value.retry, failure.value.code) == (retry, code)
    assert (failure.value.__cause__, failure.value.__context__) == (None, None)
    action = RetryAction.DEFAULT if retry else RetryAction.FAIL
    for policy in (FailureRetryPolicy(), ReportRetryPolicy()):
        assert policy.evaluate(failure.value, 1, 3).action is action


def test_an_unexpected_exception_keeps_its_type_and_is_retried() -> None:
    task = Task(ZeroDivisionError("a bug"))
    with pytest.raises(ZeroDivisionError):
        task.execute({})
    assert task.log.lines == []
    assert FailureRetryPolicy().evaluate(ZeroDivisionError(), 1, 3).action is RetryAction.DEFAULT


# --------------------------------------------------------------------------------------- in Airflow's own task runner


@pytest.fixture
def dag(database: Path) -> Any:
    from dags.flights import dag as declared

    return declared


@pytest.fixture
def landed(project_dir: Path) -> Path:
    """A landing folder with a file, so that there is work."""
    path = project_dir / ".data/landing/flights/2013-01-01.csv"
    path.parent.mkdir()
    path.write_text("year,month,day\n2013,1,1\n")
    return path


def last_lines(output: str) -> list[str]:
    """The error lines of a run's log, up to Airflow's own last one."""
    return [line for line in output.splitlines() if "[error" in line]


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        (
            {"mode": "backfill", "from_date": "0001-01-01", "to_date": "2013-01-01"},
            "from_date='0001-01-01' is out of range; write a date from 0002-01-01 to 9998-12-31",
        ),
        ({"mode": "backfill"}, "mode='backfill' needs from_date and to_date"),
    ],
)
def test_a_refused_plan_ends_with_its_sentence_and_is_not_retried(
    runs: Any, dag: Any, landed: Path, capsys: pytest.CaptureFixture[str], conf: dict[str, str], message: str
) -> None:
    run = runs.start(dag, conf)
    output = capsys.readouterr().out
    assert runs.states(run) == {"plan": "failed"} | dict.fromkeys(
        ("run", "bronze", "silver", "gold"), "upstream_failed"
    )
    first, second = last_lines(output)
    assert message in first
    if HAS_RETRY_POLICIES:
        assert "Traceback" not in output
        assert "Task exited" in second and "exit_code=64" in second


def test_a_red_run_ends_with_the_flows_that_failed_and_the_next_step(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    spark_submit(
        """
report.flow("silver").state = "refused"
report.flow("silver").error = ErrorReport(
    kind="GateRefusedError", message="batch 3 refused.", transient=False, exit_code=65
)
report.error = ErrorReport(kind="SpecError", message="the suite\\n is wrong", transient=False, exit_code=78)
report.ended_at = now()
report.write(path)
sys.exit(78)
"""
    )
    run = runs.start(dag)
    output = capsys.readouterr().out
    assert runs.states(run)["run"] == "failed"
    assert ("Traceback" in output) is not HAS_RETRY_POLICIES
    lines = last_lines(output)
    expected = [
        "The application ended with exit code 78.",
        "silver refused: batch 3 refused.",
        "the suite is wrong",
        "Remove the cause, then clear this task, or wait for the next run",
        "exit_code=78" if HAS_RETRY_POLICIES else "Task failed",
    ]
    assert len(lines) == len(expected)
    assert all(text in line for line, text in zip(lines, expected, strict=True)), lines
    assert not any("spark3-submit" in line for line in lines), "the command is at the beginning of the log"


def test_a_crash_without_a_report_says_so_and_how_many_tries_are_left(
    runs: Any,
    dag: Any,
    landed: Path,
    spark_submit: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dag.task_dict["run"], "retry_delay", timedelta(0))
    monkeypatch.setattr(dag.task_dict["run"], "retry_exponential_backoff", False)
    spark_submit("sys.exit(1)")
    run = runs.start(dag)
    output = capsys.readouterr().out
    assert runs.states(run)["run"] == "failed"
    assert "Traceback" not in output
    for left in ("3 tries left", "2 tries left", "1 try left"):
        assert output.count(f"Airflow tries again ({left}).") == 1
    assert output.count("It reported no result; its last lines have the cause.") == 4
