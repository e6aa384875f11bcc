"""The light tasks of a pipeline's DAG: is there work, and how did each flow fare. Neither starts a JVM."""

from __future__ import annotations

import dataclasses
from typing import Any, NoReturn

from airflow.sdk import BaseOperator, Context, SkipMixin
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from tidegate.airflow import attempt
from tidegate.airflow.assets import table_asset, untold_news
from tidegate.airflow.links import ReportsLink
from tidegate.airflow.telling import tell
from tidegate.checkpoint import check_compatible
from tidegate.environment import Environment
from tidegate.errors import TidegateError
from tidegate.lag import plan
from tidegate.layout import Layout
from tidegate.report import FlowReport
from tidegate.request import RunRequest
from tidegate.spec import Flow, Pipeline

CLEARING_HINT = "Clear this task, with only-failed off; that clears `run` too."
CRASHED = "the application crashed before it reported on this flow; its last lines stand in the log of `run`."


class PlanRun(BaseOperator, SkipMixin):
    """Checks what was asked for, and ends the run here when nothing is new.

    A short circuit that ignores the trigger rules below it: with no work every later task is skipped and the run is
    green. With work it stores the checked request for the job and pushes its id.
    """

    inherits_from_skipmixin = True
    """Tells Airflow that clearing a task that was skipped here must leave it skipped until `plan` is cleared too."""

    def __init__(self, *, pipeline: Pipeline, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._pipeline = pipeline

    def execute(self, context: Context) -> str | None:
        """Decide, and return the id of the request; None when there is nothing to do.

        Raises:
            AirflowFailException: Only a person can help: a bad request, an incompatible declaration.
            TidegateError: It may heal by itself, so that Airflow tries again.
        """
        try:
            request, reason = self._decide(context)
        except TidegateError as error:
            if error.transient:
                raise
            raise AirflowFailException(error.message) from error
        ti = context["ti"]
        ti.xcom_push(key=attempt.REASON_KEY, value=reason)
        if request is None:
            self.log.info("%s", reason)
            self.skip(ti=ti, tasks=self.get_flat_relatives(upstream=False))
            return None
        request_id = request.write(attempt.layout())
        ti.xcom_push(key=attempt.REQUEST_KEY, value=request_id)
        self.log.info("%s", reason)
        return request_id

    def _decide(self, context: Context) -> tuple[RunRequest | None, str]:
        dag_run = context["dag_run"]
        request = RunRequest.check(
            self._pipeline,
            dag_run.run_id,
            dict(dag_run.conf or {}),
            requested_by=dag_run.triggering_user_name or "",
        )
        environment = Environment.read()
        layout = Layout.of(environment)
        layout.open()
        chosen = request.chosen(self._pipeline)
        for flow in chosen:
            check_compatible(layout, self._pipeline, flow)
        decided = plan(environment, self._pipeline, chosen)
        if not decided.work:
            return None, decided.reason
        return dataclasses.replace(request, small=decided.small), decided.reason


class ShowFlow(BaseOperator):
    """Shows how one flow fared in this run's last attempt, and tells Airflow when its table has news.

    Green: it wrote, or an earlier attempt wrote and crashed before Airflow heard of it. Skipped: nothing was new.
    Red: refused, failed or crashed; never retried, because the application is `run`'s to retry.
    """

    operator_extra_links = (ReportsLink(),)

    def __init__(self, *, pipeline: Pipeline, flow: Flow, **kwargs: Any) -> None:
        asset = table_asset(flow.target.name)
        # The inlet is only there to read the Asset's last event.
        super().__init__(inlets=[asset], outlets=[asset], **kwargs)
        self._pipeline = pipeline
        self._flow = flow

    def execute(self, context: Context) -> None:
        """Take the colour from the report of this run's last attempt.

        Raises:
            AirflowFailException: The flow was refused, failed or crashed.
            AirflowSkipException: Nothing was new, or this run was not asked to run the flow.
        """
        report = self._report(context)
        match report.state:
            case "refused" | "failed":
                self._fail(report, (report.error or {}).get("message", f"the flow was {report.state}"))
            case "waiting" | "running":
                self._fail(report, CRASHED)
            case "skipped":
                raise AirflowSkipException("A flow above did not get through.")
            case "done" | "idle":
                self._finish(context, report)

    def _report(self, context: Context) -> FlowReport:
        report = attempt.report_of_attempt(context)
        if report is None:
            self._fail(None, CRASHED)
        try:
            return report.flow(self._flow.name)
        except KeyError:
            if self._was_left_out(context):
                raise AirflowSkipException("This run was asked to leave this flow out.") from None
            self._fail(None, CRASHED)

    def _was_left_out(self, context: Context) -> bool:
        request_id = attempt.request_id(context)
        if request_id is None:
            return False
        request = RunRequest.read(attempt.layout(), *attempt.key_of(context), request_id)
        return self._flow not in request.chosen(self._pipeline)

    def _finish(self, context: Context, report: FlowReport) -> None:
        asset = table_asset(self._flow.target.name)
        news = untold_news(context, attempt.layout(), self._pipeline, self._flow)
        if news is not None:
            extra = {**dataclasses.asdict(news), "attempt": attempt.attempt_id(context)}
            context["outlet_events"][asset].extra = extra
        elif report.state == "idle":
            raise AirflowSkipException("Nothing was new.")
        else:
            # Every row was set aside: the task is green, but Airflow would send an event for each outlet that is left.
            self.outlets = []
        for line in tell(report):
            self.log.info("%s", line)

    def _fail(self, report: FlowReport | None, why: str) -> NoReturn:
        for line in tell(report) if report is not None else ():
            self.log.info("%s", line)
        raise AirflowFailException(f"Flow {self._flow.name!r}: {why} {CLEARING_HINT}")
