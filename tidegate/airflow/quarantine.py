"""The DAG ``quarantine``: what is set aside is replayed, waived, expired or taken out through a form.

``plan`` checks what was asked for, with no JVM, and does what needs none; only a replay goes on to ``run``, one Spark
application, and ``show`` tells what became of the entries. Who triggered the run is who did it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pendulum
from airflow.sdk import DAG, BaseOperator, Context, Param, SkipMixin
from airflow.sdk.exceptions import AirflowFailException

from tidegate import registry
from tidegate.airflow import approval, attempt
from tidegate.airflow.attempt import PLAN, QUARANTINE, RUN
from tidegate.airflow.retry import ReportRetryPolicy
from tidegate.airflow.submit import RunFlows
from tidegate.airflow.telling import tell
from tidegate.checkpoints import checkpoint, intervention, lease, refusal
from tidegate.environment import Environment
from tidegate.errors import RequestError, TidegateError
from tidegate.layout import Layout
from tidegate.planning.extent import sized
from tidegate.quarantine import claims, decision, lifecycle
from tidegate.quarantine.selection import AGE, DATE, RULE, Selection
from tidegate.request import RunRequest
from tidegate.spec import Flow, Pipeline

ACTIONS = ("replay", "waive", "expire", "take")
SHOW = "show"

_NAME = "^[a-z][a-z0-9_]{0,62}$"
_RETRIES = 3
_SELECTION = ("rule", "since", "until", "older_than")


def build_quarantine_dag() -> DAG:
    """The one DAG of a deployment that changes what quarantined entries are; it runs when a person triggers it."""
    with DAG(
        dag_id=QUARANTINE,
        description="Replay, waive or expire what was set aside, or take out a batch that a gate refused.",
        doc_md=__doc__,
        schedule=None,
        start_date=pendulum.datetime(2026, 1, 1),
        catchup=False,
        rerun_with_latest_version=True,
        params=_params(),
        tags=["tidegate", QUARANTINE],
    ) as dag:
        plan = PlanQuarantine(task_id=PLAN, retries=_RETRIES)
        run = RunFlows(what=QUARANTINE, task_id=RUN, retries=_RETRIES, retry_policy=ReportRetryPolicy())
        # Clearing `show` clears `run` with it, as in a pipeline's DAG.
        run.as_setup()  # type: ignore[no-untyped-call]  # Airflow's own
        plan >> run >> ShowReplay(task_id=SHOW, retries=0)
    return dag


class PlanQuarantine(BaseOperator, SkipMixin):
    """Checks the form, does at once what needs no JVM, and lets only a replay with open entries go on."""

    inherits_from_skipmixin = True

    def execute(self, context: Context) -> str | None:
        """Act, and return the id of the request of a replay; None when there is nothing more to do.

        Raises:
            AirflowFailException: Only a person can help: the form does not fit together.
            TidegateError: It may heal by itself (a run holds the flow's lease), so that Airflow tries again.
        """
        try:
            request, told = self._decide(context)
        except TidegateError as error:
            if error.transient:
                raise
            raise AirflowFailException(error.message) from error
        ti = context["ti"]
        ti.xcom_push(key=attempt.REASON_KEY, value=told)
        self.log.info("%s", told)
        if request is None:
            self.skip(ti=ti, tasks=self.get_flat_relatives(upstream=False))
            return None
        request_id = request.write(attempt.layout())
        ti.xcom_push(key=attempt.REQUEST_KEY, value=request_id)
        return request_id

    def _decide(self, context: Context) -> tuple[RunRequest | None, str]:
        dag_run, asked = context["dag_run"], dict(context["params"])
        unknown = sorted(set(dag_run.conf or {}) - set(_params()))
        if unknown:
            raise RequestError(f"unknown key {', '.join(map(repr, unknown))}; allowed: {', '.join(_params())}")
        by = dag_run.triggering_user_name or "airflow"
        pipeline = registry.load(asked["pipeline"])
        flow = next((flow for flow in pipeline.flows if flow.name == asked["flow"]), None)
        if flow is None:
            known = ", ".join(flow.name for flow in pipeline.flows)
            raise RequestError(f"pipeline {pipeline.name!r} has no flow {asked['flow']!r}; it has: {known}")
        selection = Selection.check(**{name: asked[name] for name in _SELECTION})
        layout = attempt.layout()
        layout.open()
        if asked["action"] != "replay":
            return None, decide(layout, pipeline, flow, selection, asked, by=by)
        intervention.check_on(layout, pipeline.name, flow.name)
        path = layout.quarantine(pipeline.name, flow.name)
        entries = lifecycle.count_free(path, selection)
        if not entries and claims.in_hand(path) is None:
            return None, f"{flow.name}: nothing is open"
        request = RunRequest.of_quarantine(
            pipeline,
            flow.name,
            dag_run.run_id,
            selection,
            requested_by=by,
            limit=asked["limit"],
            dry_run=asked["dry_run"],
        )
        return sized(Environment.read(), pipeline, request), f"{flow.name}: {entries:,} open entries"


class ShowReplay(BaseOperator):
    """Tells how many entries passed and how many came back; red when the replay failed."""

    def execute(self, context: Context) -> dict[str, int]:
        """Return the counts of the replay: ``read``, ``written``, ``quarantined`` (came back), ``superseded``.

        Raises:
            AirflowFailException: The replay failed or crashed.
        """
        report = attempt.report_of_attempt(context)
        if report is None or not report.flows:
            raise AirflowFailException(
                "the application crashed before it reported; its last lines are in the log of `run`"
            )
        flow = report.flow(context["params"]["flow"])
        for line in tell(flow):
            self.log.info("%s", line)
        if flow.state not in ("done", "idle"):
            if (told := approval.ask_about(flow.error or {})) is not None:
                self.log.info("%s", told)
            why = (flow.error or {}).get("message", f"the replay was {flow.state}")
            raise AirflowFailException(f"{why} Clear this task; that clears `run` too.")
        return {count: flow.total(count) for count in ("read", "written", "quarantined", "superseded")}


def decide(
    layout: Layout, pipeline: Pipeline, flow: Flow, selection: Selection, asked: Mapping[str, Any], *, by: str
) -> str:
    """Waive, expire or take, under the flow's lease, and return what was done in a sentence.

    Raises:
        RequestError: The reason or the age is missing, a field does not go with the action, or no refused batch waits.
        LeaseHeldError: A run works on the flow. Transient.
    """
    path, action, reason = layout.quarantine(pipeline.name, flow.name), asked["action"], asked["reason"] or ""
    _check_fits(action, asked, dry_run=asked["dry_run"])
    if asked["dry_run"]:
        if action == "expire":
            decision.check_age(selection)
        return f"{flow.name}: {lifecycle.count_free(path, selection):,} open entries would be changed"
    resource = lease.checkpoint_resource(pipeline.name, flow.name)
    with lease.hold(layout, (resource,), what=f"{action} of {pipeline.name}/{flow.name} in quarantine, by {by}"):
        if action == "take":
            batch_id = refusal.take(layout, checkpoint.current(layout, pipeline, flow), flow, by=by, reason=reason)
            return f"{flow.name}: batch {batch_id} goes to quarantine whole with the next run"
        if action == "waive":
            waived = decision.waive(layout, pipeline.name, flow.name, selection, by=by, reason=reason)
            return f"{flow.name}: {waived:,} waived{_left_out(path)}"
        expired = decision.expire(layout, pipeline.name, flow.name, selection, by=by)
        return f"{flow.name}: {expired:,} expired{_left_out(path)}"


def _left_out(path: Path) -> str:
    held = claims.in_hand(path)
    if held is None:
        return ""
    return f"; {held.entries:,} more are in the hand of a replay that was interrupted: the flow's next run ends it"


def _check_fits(action: str, asked: Mapping[str, Any], *, dry_run: bool) -> None:
    """Refuse what an action would pass over: who fills a field in relies on it."""
    if asked["limit"] is not None:
        raise RequestError(f"limit does not go with {action}, which concerns all that fit; narrow them by rule or date")
    if action != "take":
        return
    if named := [name for name in _SELECTION if asked[name] is not None]:
        raise RequestError(f"{', '.join(named)} does not go with take: the batch that its gate refused goes whole")
    if dry_run:
        raise RequestError("taking a batch out has no dry run; `tidegate plan` shows which batch waits")


def _params() -> dict[str, Any]:
    names = registry.names()
    return {
        "action": Param("replay", type="string", enum=list(ACTIONS), title="Action", description=_ACTIONS),
        "pipeline": Param(names[0] if names else "none", type="string", enum=names or ["none"], title="Pipeline"),
        "flow": Param("silver", type="string", pattern=_NAME, title="Flow"),
        "rule": _optional(RULE, "Rule", "Only entries that broke this rule, for example between(amount)."),
        "since": _optional(DATE, "Since", "Only those set aside on this day (UTC) or later.", format="date"),
        "until": _optional(DATE, "Until", "Only those set aside on this day (UTC) or earlier.", format="date"),
        "older_than": _optional(AGE, "Older than", "Days or hours, as in 30d or 12h; `expire` needs it."),
        "reason": Param(
            None, type=["null", "string"], maxLength=500, title="Reason", description="`waive` and `take` need it."
        ),
        "limit": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Limit",
            description="Of `replay`: at most so many entries.",
        ),
        "dry_run": Param(False, type="boolean", title="Dry run", description="Say what would happen; change nothing."),
    }


_ACTIONS = (
    "replay: run open entries through today's transform and suite. waive: give them up, with a reason. "
    "expire: close those that waited too long. take: send the batch that a gate refused to quarantine whole."
)


def _optional(pattern: str, title: str, description: str, **more: Any) -> Param:
    return Param(None, type=["null", "string"], pattern=f"^({pattern})$", title=title, description=description, **more)
