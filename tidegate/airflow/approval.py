"""The DAG ``schema_approval``: one run per schema change that a frozen contract refused, answered by a person in Airflow.

A task that waits for a person keeps its run active, so the question has a separate DAG and the pipeline keeps its
schedule. The pipeline's ``plan`` reports that the batch waits, and its next run applies the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import pendulum
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import DAG, BaseOperator, Context, Param
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

from tidegate.advice import Edit
from tidegate.airflow import attempt, compat
from tidegate.airflow.compat import AirflowSkipException
from tidegate.airflow.failure import plain_failures
from tidegate.airflow.retry import LONGEST_DELAY, RETRIES, RETRY_DELAY, FailureRetryPolicy
from tidegate.errors import RequestError
from tidegate.lake.place import PipelinePlace
from tidegate.ops import evolution
from tidegate.reports.report import FlowReport
from tidegate.schema.contract import Answer
from tidegate.spec.checks import NAME

__all__ = ["build_schema_approval"]

DAG_ID = "schema_approval"
ASK = "ask"
"""The id of the task that waits for a person."""
RECORD = "record"
"""The id of the task that records the answer in the schema history."""

_ANSWERS = """\
**evolve**: a new field becomes a column. Fields that cannot become one and values of another type go to the rescue column. A \
row without a value for a NOT NULL field still goes to quarantine.

**quarantine**: the rows with the change go to quarantine, the others are written."""
_PARAMS = ("pipeline", "flow", "schema_change_id")


class AskPerson(HITLOperator):
    """Asks about a schema change as the contract recorded it; the form only names it."""

    template_fields = ()
    """The names of fields in the question come from files and messages; they are text and not templates."""

    def validate_params(self) -> None:
        """Validate the fields of the form: none, the Params are those of the DAG."""
        self.params = compat.own_params(self.params)
        super().validate_params()

    @plain_failures
    def execute(self, context: Context) -> Any:
        """Ask, and wait for the answer.

        Raises:
            TaskFailure: No batch of the flow was refused for this schema change.
            AirflowSkipException: It has been answered, for example with ``tidegate contract answer``.
        """
        unknown = sorted(set(context["dag_run"].conf or {}) - set(_PARAMS))
        if unknown:
            raise RequestError(
                f"unknown key {', '.join(map(repr, unknown))}", Edit(f"allowed: {', '.join(_PARAMS)}", "request")
            )
        pipeline, flow, schema_change_id = (str(context["params"][name]) for name in _PARAMS)
        layout = attempt.layout()
        refused = evolution.refusals(PipelinePlace(layout, pipeline), schema_change_id)
        if (refused_by := refused[0].flow) != flow:
            raise RequestError(
                f"schema change {schema_change_id!r} is of flow {refused_by!r} and not of {flow!r}",
                Edit("correct the name of the flow", "request"),
            )
        if answered := evolution.answers(PipelinePlace(layout, pipeline), schema_change_id):
            raise AirflowSkipException(f"{answered[0].decided_by or 'A person'} answered {answered[0].decision!r}.")
        self.subject = f"{pipeline}: {flow} waits for a schema change"
        self.body = question(pipeline, refused)
        return super().execute(context)


def question(pipeline: str, refused: Sequence[evolution.SchemaHistoryLine]) -> str:
    """The question in Markdown.

    Args:
        refused: The lines of one refused schema change.
    """
    breaks = sorted({name for line in refused for name in line.breaks})
    may_break = [f"These flows read the table and may break: {', '.join(breaks)}."] if breaks else []
    paragraphs = [
        f"Pipeline **{pipeline}**, flow **{refused[0].flow}**: a batch waits, because its schema differs from the declaration.",
        "\n".join(f"- {line.change.summary()}" for line in refused),
        *may_break,
        _ANSWERS,
        f"Schema change `{refused[0].schema_change_id}`.",
    ]
    return "\n\n".join(paragraphs)


class RecordAnswer(BaseOperator):
    """Records the answer, its author and its time in the schema history of the pipeline."""

    @plain_failures
    def execute(self, context: Context) -> None:
        """Record the answer.

        Raises:
            TaskFailure: No batch waits for this schema change, or it already has a different answer.
        """
        response = context["ti"].xcom_pull(task_ids=ASK)
        user = response.get("responded_by_user") or {}
        by = str(user.get("name") or user.get("id") or "")
        params = context["params"]
        (answer,) = response["chosen_options"]
        evolution.answer(PipelinePlace(attempt.layout(), params["pipeline"]), params["schema_change_id"], answer, by)
        self.log.info(
            "%s answered %r; the next run of %s applies it", by or "an unknown user", answer, params["pipeline"]
        )


def build_schema_approval() -> DAG:
    """The DAG; bind it to a global name in a file under ``dags/``."""
    name = f"^{NAME.pattern}$"
    with DAG(
        dag_id=DAG_ID,
        description="A frozen contract refused a batch: evolve the schema, or quarantine the rows?",
        schedule=None,
        start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
        catchup=False,
        # A question that waits must not block the next one.
        max_active_runs=1000,
        max_active_tasks=1000,
        is_paused_upon_creation=False,
        params={
            "pipeline": Param(type="string", pattern=name, title="Pipeline"),
            "flow": Param(type="string", pattern=name, title="Flow"),
            "schema_change_id": Param(type="string", pattern="^[0-9a-f]{12}$", title="Schema change"),
        },
        default_args={
            "retries": RETRIES,
            "retry_delay": RETRY_DELAY,
            **compat.retries(FailureRetryPolicy(), LONGEST_DELAY),
        },
        tags=["tidegate"],
    ) as dag:
        ask = AskPerson(task_id=ASK, subject="a schema change", options=list(get_args(Answer)))
        ask >> RecordAnswer(task_id=RECORD)
    return dag


def ask_about(pipeline: str, report: FlowReport) -> str | None:
    """Ask about the schema change that refused a flow; returns a log message, None where none did.

    Args:
        pipeline: The pipeline's name.
        report: The flow in the report of the run.
    """
    if report.error is None or report.error.schema_change_id is None:
        return None
    return ask(pipeline=pipeline, flow=report.flow, schema_change_id=report.error.schema_change_id)


def ask(*, pipeline: str, flow: str, schema_change_id: str) -> str:
    """Ask a person about a schema change once, as `ask_once` does; returns a log message.

    A failure to trigger the run does not fail the task: the task has its own result to report, and the question can also be
    answered with `tidegate contract answer`.
    """
    try:
        new = ask_once(pipeline=pipeline, flow=flow, schema_change_id=schema_change_id)
    except Exception as error:
        return (
            f"Airflow did not trigger {DAG_ID} ({type(error).__name__}); check that a file in dags/ builds it. "
            f"Or answer with: tidegate contract answer {pipeline} {schema_change_id} evolve (or quarantine)"
        )
    return f"{'a new run' if new else 'a run'} of {DAG_ID} asks about schema change {schema_change_id}"


def ask_once(*, pipeline: str, flow: str, schema_change_id: str) -> bool:
    """Trigger the run that asks about a schema change, unless it exists already.

    Args:
        schema_change_id: The same for the same changes.

    Returns:
        Whether a new run was created.

    Raises:
        AirflowRuntimeError: Airflow did not create it, for example because there is no DAG `schema_approval`.
    """
    # TriggerDagRunOperator triggers by ending its task with an exception; these tasks have a state of their own to show.
    from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    response = SUPERVISOR_COMMS.send(
        TriggerDagRun(
            dag_id=DAG_ID,
            run_id=f"{pipeline}__{flow}__{schema_change_id}",
            conf={"pipeline": pipeline, "flow": flow, "schema_change_id": schema_change_id},
        )
    )
    if not isinstance(response, ErrorResponse):
        return True
    if response.error == ErrorType.DAGRUN_ALREADY_EXISTS:
        return False
    raise AirflowRuntimeError(response)
