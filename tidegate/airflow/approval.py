"""The DAG ``schema_approval``: one run per schema change that a frozen contract refused, answered by a person in Airflow.

A task that waits for a person keeps its run active, so the question has a separate DAG and the pipeline keeps its
schedule. The pipeline's ``plan`` reports that the batch waits, and its next run applies the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import pendulum
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import DAG, BaseOperator, Context, Param
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError, ErrorType

from tidegate.airflow import attempt
from tidegate.errors import ContractRefusedError, RequestError
from tidegate.ops import evolution
from tidegate.schema.contract import Answer
from tidegate.spec.checks import NAME

DAG_ID = "schema_approval"
ASK = "ask"
"""The id of the task that waits for a person."""
RECORD = "record"
"""The id of the task that records the answer in the schema history."""

_QUESTION = """\
Pipeline **{{ params.pipeline }}**, flow **{{ params.flow }}**: a batch waits, because its schema differs from the declaration.

{% for change in params.changes %}- {{ change }}
{% endfor %}
{% if params.breaks %}These flows read the table and may break: {{ params.breaks | join(", ") }}.

{% endif %}**evolve**: a new field becomes a column. Fields that cannot become one and values of another type go to the rescue column. A \
row without a value for a NOT NULL field still goes to quarantine.
**quarantine**: the rows with the change go to quarantine, the others are written.
Schema change `{{ params.schema_change_id }}`."""


class RecordAnswer(BaseOperator):
    """Records the answer, its author and its time in the schema history of the pipeline."""

    def execute(self, context: Context) -> None:
        """Record the answer.

        Raises:
            AirflowFailException: No batch waits for this schema change, or it already has a different answer.
        """
        response = context["ti"].xcom_pull(task_ids=ASK)
        user = response.get("responded_by_user") or {}
        by = str(user.get("name") or user.get("id") or "")
        params = context["params"]
        (answer,) = response["chosen_options"]
        try:
            evolution.answer(attempt.layout(), params["pipeline"], params["schema_change_id"], answer, by)
        except RequestError as error:
            raise AirflowFailException(error.message) from error
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
            "changes": Param([], type="array", items={"type": "string"}, title="Changes in the batch"),
            "breaks": Param([], type="array", items={"type": "string"}, title="Flows that may break"),
        },
        tags=["tidegate"],
    ) as dag:
        ask = HITLOperator(
            task_id=ASK,
            subject="{{ params.pipeline }}: {{ params.flow }} waits for a schema change",
            body=_QUESTION,
            options=list(get_args(Answer)),
        )
        ask >> RecordAnswer(task_id=RECORD)
    return dag


def ask_about(error: Mapping[str, Any]) -> str | None:
    """Ask about the schema change in an error of a run report; returns a log message, None for any other error.

    Args:
        error: The output of `tidegate.report.describe_error`.
    """
    if error.get("kind") != ContractRefusedError.__name__:
        return None
    return ask(**{name: error.get(name, ()) for name in ("pipeline", "flow", "schema_change_id", "changes", "breaks")})


def ask(*, pipeline: str, flow: str, schema_change_id: str, changes: Sequence[str], breaks: Sequence[str]) -> str:
    """Ask a person about a schema change once, as `ask_once` does; returns a log message.

    A failure to trigger the run does not fail the task: the task has its own result to report, and the question can also be
    answered with `tidegate contract answer`.
    """
    try:
        new = ask_once(pipeline=pipeline, flow=flow, schema_change_id=schema_change_id, changes=changes, breaks=breaks)
    except Exception as error:
        return (
            f"Airflow did not trigger {DAG_ID} ({type(error).__name__}); check that dags/schema_approval.py is deployed. "
            f"Or answer with: tidegate contract answer {pipeline} {schema_change_id} evolve (or quarantine)"
        )
    return f"{'a new run' if new else 'a run'} of {DAG_ID} asks about schema change {schema_change_id}"


def ask_once(*, pipeline: str, flow: str, schema_change_id: str, changes: Sequence[str], breaks: Sequence[str]) -> bool:
    """Trigger the run that asks about a schema change, unless it exists already.

    Args:
        schema_change_id: The same for the same changes.
        changes: The changes in the batch, one phrase each, without data values.
        breaks: ``<pipeline>/<flow>`` of the flows that read the table and may break.

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
            conf={
                "pipeline": pipeline,
                "flow": flow,
                "schema_change_id": schema_change_id,
                "changes": list(changes),
                "breaks": list(breaks),
            },
        )
    )
    if not isinstance(response, ErrorResponse):
        return True
    if response.error == ErrorType.DAGRUN_ALREADY_EXISTS:
        return False
    raise AirflowRuntimeError(response)
