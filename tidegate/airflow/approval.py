"""The DAG ``schema_approval``: one run per drift that a frozen contract refused, answered by a person in Airflow.

A task that waits for a person keeps its run active, so the question has a DAG of its own and the pipeline keeps its
schedule. Its ``plan`` says that the batch waits, and its next run acts on the answer.
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
from tidegate.spec.fields import NAME

DAG_ID = "schema_approval"
ASK = "ask"
"""The id of the task that waits for a person."""
RECORD = "record"
"""The id of the task that writes the answer into the history."""

_QUESTION = """\
Pipeline **{{ params.pipeline }}**, flow **{{ params.flow }}**: a batch waits, because its records no longer fit the schema.

{% for change in params.changes %}- {{ change }}
{% endfor %}
{% if params.breaks %}They read the table and may break: {{ params.breaks | join(", ") }}.

{% endif %}**evolve**: a new field becomes a column; what cannot be one is rescued, and values of another type are. A row that lacks what \
is NOT NULL goes to quarantine all the same.
**quarantine**: the rows with the change go to quarantine, the others pass.
Drift `{{ params.drift }}`."""


class RecordAnswer(BaseOperator):
    """Writes what a person answered, who it was and when into the history of the pipeline's schemas."""

    def execute(self, context: Context) -> None:
        """Write it down.

        Raises:
            AirflowFailException: No batch waits for this drift, or it was answered otherwise before.
        """
        given = context["ti"].xcom_pull(task_ids=ASK)
        who = given.get("responded_by_user") or {}
        by = str(who.get("name") or who.get("id") or "")
        params = context["params"]
        (chosen,) = given["chosen_options"]
        try:
            evolution.answer(attempt.layout(), params["pipeline"], params["drift"], chosen, by)
        except RequestError as error:
            raise AirflowFailException(error.message) from error
        self.log.info("%s answered %r; the next run of %s acts on it", by or "somebody", chosen, params["pipeline"])


def build_schema_approval() -> DAG:
    """The DAG, to be bound to a global name of a file under ``dags/``."""
    name = f"^{NAME.pattern}$"
    with DAG(
        dag_id=DAG_ID,
        description="A frozen contract refused a batch: evolve the schema, or quarantine the rows?",
        schedule=None,
        start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
        catchup=False,
        # A question that waits must not hold up another, or not be asked at all.
        max_active_runs=1000,
        max_active_tasks=1000,
        is_paused_upon_creation=False,
        params={
            "pipeline": Param(type="string", pattern=name, title="Pipeline"),
            "flow": Param(type="string", pattern=name, title="Flow"),
            "drift": Param(type="string", pattern="^[0-9a-f]{12}$", title="Drift"),
            "changes": Param([], type="array", items={"type": "string"}, title="What the batch brings"),
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
    """Ask about what an error of a run report tells, and return what to log; None when it is about no drift.

    Args:
        error: As `tidegate.report.describe_error` makes it.
    """
    if error.get("kind") != ContractRefusedError.__name__:
        return None
    return ask(**{name: error.get(name, ()) for name in ("pipeline", "flow", "drift", "changes", "breaks")})


def ask(*, pipeline: str, flow: str, drift: str, changes: Sequence[str], breaks: Sequence[str]) -> str:
    """Ask a person about a drift, once for each drift, as `ask_once` does, and return what to log.

    That Airflow does not open the run is no reason to fail: what the task has to say is more, and the command line answers too.
    """
    try:
        new = ask_once(pipeline=pipeline, flow=flow, drift=drift, changes=changes, breaks=breaks)
    except Exception:  # whatever Airflow says to it
        return f"Airflow did not open a run of {DAG_ID}; is dags/schema_approval.py there?"
    return f"{'a new run' if new else 'a run'} of {DAG_ID} asks about drift {drift}"


def ask_once(*, pipeline: str, flow: str, drift: str, changes: Sequence[str], breaks: Sequence[str]) -> bool:
    """Open the run that asks about a drift; a drift that was asked about has its run already.

    Args:
        pipeline: Whose batch waits.
        flow: The flow that refused it.
        drift: Its name.
        changes: What the batch brings, each as a phrase without a value.
        breaks: ``<pipeline>/<flow>`` of those who may rely on what changes.

    Returns:
        Whether a new run was opened.

    Raises:
        AirflowRuntimeError: Airflow does not open it, for example because it has no DAG `schema_approval`.
    """
    # The operator that triggers runs does it by ending its task; these have a colour of their own to show.
    from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    answer = SUPERVISOR_COMMS.send(
        TriggerDagRun(
            dag_id=DAG_ID,
            run_id=f"{pipeline}__{flow}__{drift}",
            conf={
                "pipeline": pipeline,
                "flow": flow,
                "drift": drift,
                "changes": list(changes),
                "breaks": list(breaks),
            },
        )
    )
    if not isinstance(answer, ErrorResponse):
        return True
    if answer.error == ErrorType.DAGRUN_ALREADY_EXISTS:
        return False
    raise AirflowRuntimeError(answer)
