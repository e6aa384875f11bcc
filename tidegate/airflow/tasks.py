"""The light tasks of a pipeline's DAG: is there work, and how did each flow fare. Neither starts a JVM."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, NoReturn

from airflow.sdk import BaseOperator, Context, SkipMixin
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from tidegate.airflow import approval, attempt, gauges
from tidegate.airflow.assets import table_asset, tell_news
from tidegate.airflow.links import ReportsLink
from tidegate.airflow.telling import tell
from tidegate.checkpoints.checkpoint import check_compatible
from tidegate.environment import Environment
from tidegate.errors import RequestError, TidegateError
from tidegate.layout import Layout
from tidegate.ops import evolution, metrics, plans
from tidegate.planning.extent import sized
from tidegate.planning.preview import Preview, preview
from tidegate.report import FlowReport
from tidegate.request import RunRequest
from tidegate.spec import Flow, Pipeline
from tidegate.status.lag import Lag, Plan, plan
from tidegate.window import Window

_BACKFILL = "backfill"
"""Airflow's type of the runs that a backfill makes."""

CLEARING_HINT = "Clear this task, with only-failed off; that clears `run` too."
CRASHED = "the application crashed before it reported on this flow; its last lines stand in the log of `run`."


class PlanRun(BaseOperator, SkipMixin):
    """Checks what was asked for, and ends the run here when nothing is new.

    A short circuit that ignores the trigger rules below it: with no work every later task is skipped and the run is
    green. With work it stores the checked request for the job and pushes its id. Without, no flow's task will run, so
    it sends the events that a crash swallowed after the last batch.

    A flow whose source cannot be read is left to its own task while another flow has work; else it is this one's error.
    """

    inherits_from_skipmixin = True
    """Tells Airflow that clearing a task that was skipped here must leave it skipped until `plan` is cleared too."""

    def __init__(self, *, pipeline: Pipeline, **kwargs: Any) -> None:
        assets = [table_asset(flow.target.name) for flow in pipeline.flows]
        super().__init__(inlets=assets, outlets=assets, **kwargs)
        self._pipeline = pipeline

    def execute(self, context: Context) -> str | None:
        """Decide, and return the id of the request; None when there is nothing to do.

        Raises:
            AirflowFailException: Only a person can help: a bad request, an incompatible declaration.
            TidegateError: It may heal by itself, so that Airflow tries again.
        """
        begun = time.process_time()
        self.outlets = []
        try:
            request, reason = self._decide(context)
        except TidegateError as error:
            if error.transient:
                raise
            raise AirflowFailException(error.message) from error
        ti = context["ti"]
        ti.xcom_push(key=attempt.REASON_KEY, value=reason)
        if request is None:
            self.outlets = tell_news(context, attempt.layout(), self._pipeline, self._pipeline.flows)
            for asset in self.outlets:
                self.log.info("Airflow had not been told of new rows in %s; it is now", asset.name)
            self.log.info("Looked for news in %.2f s of CPU time", time.process_time() - begun)
            self.log.info("%s", reason)
            self.skip(ti=ti, tasks=self.get_flat_relatives(upstream=False))
            return None
        request_id = request.write(attempt.layout())
        ti.xcom_push(key=attempt.REQUEST_KEY, value=request_id)
        self.log.info("%s", reason)
        return request_id

    def _decide(self, context: Context) -> tuple[RunRequest | None, str]:
        request = self._request(context)
        environment = Environment.read()
        layout = Layout.of(environment)
        layout.open()
        chosen = request.chosen(self._pipeline)
        if request.mode == "incremental" and not request.dry_run:
            return self._decide_increment(environment, layout, request, chosen)
        for flow in chosen:
            check_compatible(layout, self._pipeline, flow)
        decided = plan(environment, self._pipeline, chosen) if request.mode == "incremental" else None
        seen = self._tell_preview(environment, request, decided.lags if decided is not None else None)
        if decided is not None:
            self._check(decided)
        if request.dry_run:
            return None, f"dry run: {decided.reason if decided is not None else request.told()}; nothing was run"
        extents = [flow.reads for flow in seen.flows] if seen is not None else None
        return sized(environment, self._pipeline, request, extents), request.told()

    def _tell_preview(
        self, environment: Environment, request: RunRequest, lags: tuple[Lag, ...] | None
    ) -> Preview | None:
        try:
            seen = preview(environment, self._pipeline, request, lags)
        except Exception as error:
            if request.dry_run:
                raise
            # It is advice. What stops the run itself, the run will say.
            why = error.message if isinstance(error, TidegateError) else type(error).__name__
            self.log.warning("what this run will do could not be told beforehand: %s", why)
            return None
        for line in seen.lines():
            self.log.info("%s", line)
        return seen

    def _decide_increment(
        self, environment: Environment, layout: Layout, request: RunRequest, chosen: tuple[Flow, ...]
    ) -> tuple[RunRequest | None, str]:
        """Decide, and note what was found, for rules about several runs in a row."""
        try:
            for flow in chosen:
                check_compatible(layout, self._pipeline, flow)
            decided = plan(environment, self._pipeline, chosen)
        except TidegateError:
            plans.record_failure(layout, self._pipeline.name)
            raise
        plans.record(layout, self._pipeline.name, decided.lags)
        # Whoever met the drift may not have asked: a run of the command line, or a task that died.
        for drift, lines in evolution.waiting(layout, self._pipeline).items():
            changes = [line.change.told() for line in lines]
            breaks = sorted({name for line in lines for name in line.breaks})
            asked = approval.ask(
                pipeline=self._pipeline.name, flow=lines[0].flow, drift=drift, changes=changes, breaks=breaks
            )
            self.log.info("%s", asked)
        gauges.tell_lags(self._pipeline.name, decided.lags)
        if not decided.work:
            self._check(decided)
            return None, decided.reason
        return dataclasses.replace(request, small=decided.small), decided.reason

    def _check(self, decided: Plan) -> None:
        """Raise the error of a flow that would fail; of several one that heals by waiting, so that Airflow tries again."""
        if decided.errors:
            self.log.error("%s", decided.reason)
            raise decided.errors[-1]

    def _request(self, context: Context) -> RunRequest:
        """What a person asked for; a run of a backfill replays its data interval."""
        dag_run = context["dag_run"]
        asked = dict(dag_run.conf or {})
        # Its run_id may begin with "scheduled__" (orchestration of Airflow 3.3): the type alone tells.
        if dag_run.run_type != _BACKFILL:
            by = dag_run.triggering_user_name or ""
            return RunRequest.check(self._pipeline, dag_run.run_id, asked, requested_by=by)
        # A run that was there before keeps the name that it had: none, when the schedule made it.
        by = dag_run.triggering_user_name or "airflow backfill"
        start, end = dag_run.data_interval_start, dag_run.data_interval_end
        if start is None or end is None or start == end:
            raise RequestError(
                f"pipeline {self._pipeline.name!r} has no schedule with data intervals, so a backfill has no windows; trigger one "
                "run with mode='replay', from_date and to_date instead"
            )
        window = Window.of_interval(start, end, self._pipeline.timezone)
        return RunRequest.of_window(self._pipeline, dag_run.run_id, asked, window, requested_by=by)


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
        self._send_metrics(context, report)
        match report.state:
            case "refused" | "failed":
                self._ask(report)
                self._fail(report, (report.error or {}).get("message", f"the flow was {report.state}"))
            case "waiting" | "running":
                self._fail(report, CRASHED)
            case "skipped":
                raise AirflowSkipException(". ".join(report.notes) or "A flow above did not get through.")
            case "done" | "idle":
                self._finish(context, report)

    def _send_metrics(self, context: Context, report: FlowReport) -> None:
        progress: list[dict[str, Any]] = []
        try:
            if report.batches:
                path = attempt.layout().ops(self._pipeline.name, "progress")
                progress = metrics.read(path, report.flow, attempt.attempt_id(context) or "")
        except Exception as error:
            # A metric never fails a task.
            self.log.warning("what Spark told of its batches cannot be read (%s)", type(error).__name__)
        gauges.tell_batches(self._pipeline.name, report, progress)

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
        # No news behind a flow that is done: every row was set aside. The task is green and sends no event.
        self.outlets = tell_news(context, attempt.layout(), self._pipeline, [self._flow])
        if not self.outlets and report.state == "idle":
            raise AirflowSkipException(". ".join([*report.notes, "Nothing was new."]))
        for line in tell(report):
            self.log.info("%s", line)

    def _ask(self, report: FlowReport) -> None:
        """Ask a person about a drift that a frozen contract refused, once for each drift."""
        if (asked := approval.ask_about(report.error or {})) is not None:
            self.log.info("%s", asked)

    def _fail(self, report: FlowReport | None, why: str) -> NoReturn:
        for line in tell(report) if report is not None else ():
            self.log.info("%s", line)
        raise AirflowFailException(f"Flow {self._flow.name!r}: {why} {CLEARING_HINT}")
