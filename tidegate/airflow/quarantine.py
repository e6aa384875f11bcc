"""The DAG ``quarantine``: replay, waive or expire quarantine entries, quarantine a refused batch, or accept a held one, by a form.

``plan`` validates the form without a JVM and does everything but a replay itself. A replay continues with ``run``, one Spark
application, and ``show`` reports its counts. The user who triggered the run is recorded as the author of the decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pendulum
from airflow.sdk import DAG, BaseOperator, Context, Param

from tidegate.advice import Command, Edit
from tidegate.airflow import approval, attempt, compat
from tidegate.airflow.attempt import PLAN, QUARANTINE, RUN
from tidegate.airflow.compat import SkipMixin
from tidegate.airflow.failure import CLEARING_HINT, TaskFailure, plain_failures
from tidegate.airflow.retry import LONGEST_DELAY, RETRIES, RETRY_DELAY, FailureRetryPolicy
from tidegate.airflow.submit import RunFlows
from tidegate.environment import Environment
from tidegate.errors import RequestError
from tidegate.formatting import count
from tidegate.lake.place import FlowPlace
from tidegate.planning.extent import with_size
from tidegate.project import registry
from tidegate.project.resolution import resolve
from tidegate.quarantine import decision
from tidegate.quarantine.selection import AGE, RULE, Selection
from tidegate.reports.ledger_line import ROWS
from tidegate.reports.report_lines import log_lines
from tidegate.requests.request import RunRequest
from tidegate.spec import Flow
from tidegate.times import dates

__all__ = ["build_quarantine_dag"]

ACTIONS = ("replay", "waive", "expire", "take", "accept")
SHOW = "show"

_NAME = "^[a-z][a-z0-9_]{0,62}$"
_SELECTION = ("rule", "since", "until", "older_than")


def build_quarantine_dag() -> DAG:
    """The DAG that replays and closes quarantine entries of all pipelines of a deployment; it is only triggered manually."""
    with DAG(
        dag_id=QUARANTINE,
        description="Replay, waive or expire quarantine entries, quarantine a refused batch, or accept a held one.",
        doc_md=__doc__,
        schedule=None,
        start_date=pendulum.datetime(2026, 1, 1),
        catchup=False,
        **compat.LATEST_VERSION,
        params=_params(),
        default_args={
            "retries": RETRIES,
            "retry_delay": RETRY_DELAY,
            **compat.retries(FailureRetryPolicy(), LONGEST_DELAY),
        },
        tags=["tidegate", QUARANTINE],
    ) as dag:
        plan = PlanQuarantine(task_id=PLAN)
        run = RunFlows(label=QUARANTINE, task_id=RUN)
        # Clearing `show` clears `run` with it, as in a pipeline's DAG.
        run.as_setup()  # type: ignore[no-untyped-call]  # untyped in Airflow
        plan >> run >> ShowReplay(task_id=SHOW)
    return dag


class PlanQuarantine(BaseOperator, SkipMixin):
    """Validates the form and executes its action; only a replay with open entries continues with `run`."""

    inherits_from_skipmixin = True

    @plain_failures
    def execute(self, context: Context) -> str | None:
        """Execute the action; returns the request id of a replay, None when nothing remains to be done.

        Raises:
            TaskFailure: The form's fields contradict each other, or a run holds the flow's lease, which is retried.
        """
        request, summary = self._decide(context)
        ti = context["ti"]
        ti.xcom_push(key=attempt.REASON_KEY, value=summary)
        self.log.info("%s", summary)
        if request is None:
            self.skip(ti=ti, tasks=self.get_flat_relatives(upstream=False))
            return None
        request_id = request.write(attempt.layout())
        ti.xcom_push(key=attempt.REQUEST_KEY, value=request_id)
        return request_id

    def _decide(self, context: Context) -> tuple[RunRequest | None, str]:
        dag_run, params = context["dag_run"], dict(context["params"])
        unknown = sorted(set(dag_run.conf or {}) - set(_params()))
        if unknown:
            raise RequestError(
                f"unknown key {', '.join(map(repr, unknown))}", Edit(f"allowed: {', '.join(_params())}", "request")
            )
        by = dag_run.triggering_user_name or "airflow"
        pipeline = registry.load(params["pipeline"])
        flow = next((flow for flow in pipeline.flows if flow.name == params["flow"]), None)
        if flow is None:
            names = ", ".join(flow.name for flow in pipeline.flows)
            raise RequestError(
                f"pipeline {pipeline.name!r} has no flow {params['flow']!r}", Edit(f"it has: {names}", "request")
            )
        selection = Selection.check(**{name: params[name] for name in _SELECTION})
        layout = attempt.layout()
        layout.open()
        place = FlowPlace(layout, pipeline.name, flow.name)
        if params["action"] != "replay":
            return None, decide(place, flow, selection, params, by=by)
        dry_run = params["dry_run"]
        environment = Environment.read()
        resolve(pipeline, environment.project).check_runnable([flow])
        replayable = decision.check_replay(place, selection, dry_run=dry_run)
        if not replayable.entries and not replayable.interrupted:
            return None, f"{flow.name}: no open entries"
        request = RunRequest.of_replay(
            pipeline,
            flow.name,
            dag_run.run_id,
            selection,
            requested_by=by,
            limit=params["limit"],
            dry_run=dry_run,
        )
        return with_size(
            environment, pipeline, request
        ), f"{flow.name}: {count(replayable.entries, 'open entry', 'open entries')}"


class ShowReplay(BaseOperator):
    """Reports the counts of a replay; fails when the replay failed."""

    @plain_failures
    def execute(self, context: Context) -> dict[str, int]:
        """Return the counts of the replay: ``read``, and each part of its balance; ``quarantined`` are refused again.

        Raises:
            TaskFailure: The replay failed or crashed.
        """
        report = attempt.report_of_attempt(context)
        if report is None or not report.flows:
            raise TaskFailure(
                f"the application crashed before it wrote a report; see the log of `run`.\n{CLEARING_HINT}"
            )
        flow = report.flow(context["params"]["flow"])
        for line in log_lines(flow):
            self.log.info("%s", line)
        if flow.state not in ("done", "idle"):
            if (message := approval.ask_about(context["params"]["pipeline"], flow)) is not None:
                self.log.info("%s", message)
            why = f"the replay was {flow.state}." if flow.error is None else flow.error.message
            raise TaskFailure(f"{why}\n{CLEARING_HINT}")
        return {count: flow.total(count) for count in (ROWS.total, *ROWS.parts)}


def decide(place: FlowPlace, flow: Flow, selection: Selection, params: Mapping[str, Any], *, by: str) -> str:
    """Execute the action `waive`, `expire`, `take` or `accept`; returns a summary.

    Raises:
        RequestError: The reason or the age is missing, a field does not apply to the action, or no refused batch waits.
        LeaseHeldError: A run of the flow is in progress. Transient.
    """
    action, reason, dry_run = params["action"], params["reason"] or "", params["dry_run"]
    _check_fits(action, params, dry_run=dry_run)
    if action in ("take", "accept"):
        batch_id = decision.decide_batch(place, flow, by=by, reason=reason, action=action)
        done = f"quarantine the whole batch {batch_id}" if action == "take" else f"let batch {batch_id} pass"
        return f"{flow.name}: the next run will {done}"
    if action == "waive":
        closed = decision.waive(place, selection, by=by, reason=reason, dry_run=dry_run)
    else:
        closed = decision.expire(place, selection, by=by, dry_run=dry_run)
    if dry_run:
        return f"{flow.name}: {count(closed.entries, 'open entry', 'open entries')} would be changed"
    summary = f"{flow.name}: {closed.entries:,} {'waived' if action == 'waive' else 'expired'}"
    if not (claimed := closed.counts.claimed):
        return summary
    return f"{summary}; {claimed:,} more are claimed by an interrupted replay, which the flow's next run completes"


def _check_fits(action: str, params: Mapping[str, Any], *, dry_run: bool) -> None:
    """Refuse fields that the action would ignore."""
    if params["limit"] is not None:
        raise RequestError(
            f"limit does not apply to {action}, which affects all selected entries",
            Edit("select fewer by rule or date", "request"),
        )
    if action not in ("take", "accept"):
        return
    if fields := [name for name in _SELECTION if params[name] is not None]:
        raise RequestError(
            f"{', '.join(fields)} does not apply to {action}, which is about the whole refused batch",
            Edit("leave them out", "request"),
        )
    if dry_run:
        raise RequestError(
            f"{action} has no dry run",
            Command.tidegate("plan", params["pipeline"], says="`{}` shows which batch waits"),
        )


def _params() -> dict[str, Any]:
    names = registry.names()
    return {
        "action": Param("replay", type="string", enum=list(ACTIONS), title="Action", description=_ACTIONS),
        "pipeline": Param(names[0] if names else "none", type="string", enum=names or ["none"], title="Pipeline"),
        "flow": Param("silver", type="string", pattern=_NAME, title="Flow"),
        "rule": _optional(RULE, "Rule", "Only entries that violate this rule, for example between(amount)."),
        "since": _optional(
            dates.PATTERN, "Since", "Only entries quarantined on this day (UTC) or later.", format="date"
        ),
        "until": _optional(
            dates.PATTERN, "Until", "Only entries quarantined on this day (UTC) or earlier.", format="date"
        ),
        "older_than": _optional(AGE, "Older than", "Days or hours, for example 30d or 12h; required for `expire`."),
        "reason": Param(
            None,
            type=["null", "string"],
            maxLength=500,
            title="Reason",
            description="Required for `waive`, `take` and `accept`.",
        ),
        "limit": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Limit",
            description="Maximum number of entries; only for `replay`.",
        ),
        "dry_run": Param(
            False, type="boolean", title="Dry run", description="Only print what would happen; change nothing."
        ),
    }


_ACTIONS = (
    "replay: process open entries with the current transform and suite. waive: close them without a replay, with a reason. "
    "expire: close those older than an age. take: quarantine a whole batch that was refused (not by its contract). "
    "accept: let a batch pass that a statistic holds, with a reason."
)


def _optional(pattern: str, title: str, description: str, **more: Any) -> Param:
    return Param(None, type=["null", "string"], pattern=f"^({pattern})$", title=title, description=description, **more)
