"""The tasks of a pipeline's DAG that start no JVM: the plan, and the result of each flow."""

from __future__ import annotations

import dataclasses
import pkgutil
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from airflow.sdk import Asset, AssetAlias, BaseOperator, Context

from tidegate.advice import Edit
from tidegate.airflow import approval, attempt, gauges
from tidegate.airflow.assets import attach_intervals, attach_updates, interval_alias, interval_asset, table_asset
from tidegate.airflow.compat import AirflowSkipException, SkipMixin
from tidegate.airflow.failure import CLEARING_HINT, TaskFailure, plain_failures
from tidegate.airflow.links import ReportsLink
from tidegate.checkpoints.checkpoint import check_compatible
from tidegate.environment import Environment
from tidegate.errors import RequestError, TidegateError
from tidegate.lake import read_once
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.ops import evolution, metrics, plans
from tidegate.planning import rewrites
from tidegate.planning.extent import with_size
from tidegate.planning.preview import Preview, preview
from tidegate.project.resolution import ResolvedPipeline
from tidegate.reports.report import FlowReport
from tidegate.reports.report_lines import log_lines
from tidegate.requests.request import RunRequest
from tidegate.requests.runs import RUNS
from tidegate.spec import Flow, Pipeline
from tidegate.states import STATES, state_after, step_for
from tidegate.status import removed
from tidegate.status.plan import Plan, check_and_decide, decide, record
from tidegate.status.reading import Reading
from tidegate.times.window import Window

_BACKFILL = "backfill"
"""Airflow's run type of the runs of a backfill."""

CRASHED = "the application crashed before it reported a result of this flow."


class PlanRun(BaseOperator, SkipMixin):
    """Validates the parameters of the run and skips all later tasks when there is no work.

    It is a short circuit that ignores the trigger rules of the later tasks, so a run without work succeeds. With work it stores
    the validated request for the job and pushes its id. Without work no flow's task runs, so this task sends the Asset events
    that were lost in a crash after the last batch.

    If the source, the suite or the transform of a flow cannot be read, that flow's own task fails while another flow has
    work; otherwise this task fails.
    """

    inherits_from_skipmixin = True
    """Makes Airflow keep a task that this one skipped in the state skipped when it is cleared without `plan`."""

    shallow_copy_attrs = ("_resolved",)
    """It holds errors, which cannot be copied."""

    def __init__(self, *, pipeline: ResolvedPipeline, **kwargs: Any) -> None:
        flows = pipeline.pipeline.flows
        super().__init__(inlets=_inlets(flows), outlets=_outlets(flows), **kwargs)
        self._resolved = pipeline
        self._pipeline = pipeline.pipeline

    @plain_failures
    def execute(self, context: Context) -> str | None:
        """Decide, and return the id of the request; None when there is nothing to do.

        Raises:
            TaskFailure: An invalid request, an incompatible declaration, or an error of a source; a transient one is retried.
        """
        started = time.process_time()
        self.outlets = []
        request, reason = self._decide(context)
        ti = context["ti"]
        ti.xcom_push(key=attempt.REASON_KEY, value=reason)
        if request is None:
            arguments = (context, attempt.layout(), self._pipeline, self._pipeline.flows)
            updated = attach_updates(*arguments)
            # An interval also becomes complete without new data: by a marker, or because nothing arrives any more.
            self.outlets = [*updated, *attach_intervals(*arguments)]
            for asset in updated:
                self.log.info("Sent the missing Asset event for new rows in %s", asset.name)
            self.log.info("Checked for new data in %.2f s of CPU time", time.process_time() - started)
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
        for line in removed.lines(removed.undecided(layout, self._pipeline, self._resolved.declared)):
            self.log.warning("%s", line)
        flows = request.selected(self._pipeline)
        if request.mode == "incremental" and not request.dry_run:
            return self._decide_increment(environment, layout, request, flows)
        if plan_of_mode := RUNS[request.mode].plan:
            request, lines = pkgutil.resolve_name(plan_of_mode)(environment, self._resolved, request)
            for line in lines:
                self.log.info("%s", line)
            return request, f"dry run: {request.summary()}" if request.dry_run else request.summary()
        for flow in self._pipeline.declared_alone(flows):
            check_compatible(layout, self._resolved.flow(flow.name))
        self._resolved.check_runnable([flow for flow in flows if request.applies_to(flow)])
        increment_plan = decide(environment, self._resolved, flows) if request.mode == "incremental" else None
        run_preview = self._log_preview(
            environment, request, increment_plan.readings if increment_plan is not None else None
        )
        if increment_plan is not None:
            self._check(increment_plan)
        if request.dry_run:
            reason = increment_plan.reason if increment_plan is not None else request.summary()
            if not rewrites.has_any(layout, self._pipeline, request):
                return None, f"dry run: {reason}; nothing was run"
            return with_size(environment, self._pipeline, request), f"dry run: {reason}; nothing is written"
        extents = [flow.reads for flow in run_preview.flows] if run_preview is not None else None
        return with_size(environment, self._pipeline, request, extents), request.summary()

    def _log_preview(
        self, environment: Environment, request: RunRequest, readings: tuple[Reading, ...] | None
    ) -> Preview | None:
        try:
            run_preview = preview(environment, self._resolved, request, readings)
        except Exception as error:
            if request.dry_run:
                raise
            # The preview is only information; an error that stops the run is raised by the run itself.
            why = error.message if isinstance(error, TidegateError) else type(error).__name__
            self.log.warning("no preview of this run: %s", why)
            return None
        for line in run_preview.lines():
            self.log.info("%s", line)
        return run_preview

    def _decide_increment(
        self, environment: Environment, layout: Layout, request: RunRequest, flows: tuple[Flow, ...]
    ) -> tuple[RunRequest | None, str]:
        """Decide, and record the lags for the alert rules that need several plans in a row."""
        environment = read_once.once(environment)
        try:
            increment_plan = check_and_decide(environment, self._resolved, flows)
        except TidegateError:
            plans.record_failure(PipelinePlace(layout, self._pipeline.name))
            raise
        record(environment, self._pipeline.name, increment_plan)
        # The run that found the schema change may not have asked: a run of the command line, or a task that was killed.
        for schema_change_id, lines in evolution.open_schema_changes(layout, self._resolved).items():
            message = approval.ask(pipeline=self._pipeline.name, flow=lines[0].flow, schema_change_id=schema_change_id)
            self.log.info("%s", message)
        gauges.send_lags(increment_plan.readings)
        if not increment_plan.work and not request.accept:
            self._check(increment_plan)
            return None, increment_plan.reason
        return dataclasses.replace(request, small=increment_plan.small, size=increment_plan.size), increment_plan.reason

    def _check(self, increment_plan: Plan) -> None:
        """Raise the error of a flow that would fail; of several errors a transient one, so that Airflow retries."""
        if increment_plan.errors:
            self.log.error("%s", increment_plan.reason)
            raise increment_plan.errors[-1]

    def _request(self, context: Context) -> RunRequest:
        """The request in the run's conf; a run of an Airflow backfill requests the backfill of its data interval."""
        dag_run = context["dag_run"]
        conf = dict(dag_run.conf or {})
        # The run id of a backfill may begin with "scheduled__" (Airflow 3.3), so only the run type identifies it.
        if dag_run.run_type != _BACKFILL:
            by = dag_run.triggering_user_name or ""
            return RunRequest.check(self._pipeline, dag_run.run_id, conf, requested_by=by)
        # A backfill of an existing run keeps its user name, which is empty for a scheduled run.
        by = dag_run.triggering_user_name or "airflow backfill"
        start, end = dag_run.data_interval_start, dag_run.data_interval_end
        if start is None or end is None or start == end:
            raise RequestError(
                f"pipeline {self._pipeline.name!r} has no schedule with data intervals, so a backfill has no windows",
                Edit("trigger one run with mode='backfill', from_date and to_date instead", "request"),
            )
        window = Window.of_interval(start, end, self._pipeline.timezone)
        return RunRequest.of_window(self._pipeline, dag_run.run_id, conf, window, requested_by=by)


class ShowFlow(BaseOperator):
    """Shows the result of one flow in the run's last attempt, and sends an Asset event for new rows of its table.

    Success: it wrote rows, or an earlier attempt did and crashed before the event was sent. Skipped: there was nothing new.
    Failed: refused, failed or crashed. That is not retried, because `run` retries the application.
    """

    operator_extra_links = (ReportsLink(),)

    def __init__(self, *, pipeline: Pipeline, flow: Flow, **kwargs: Any) -> None:
        # The inlets are needed to read the last events.
        super().__init__(inlets=_inlets([flow]), outlets=_outlets([flow]), **kwargs)
        self._pipeline = pipeline
        self._flow = flow

    @plain_failures
    def execute(self, context: Context) -> None:
        """Take the task's state from the report of the run's last attempt.

        Raises:
            TaskFailure: The flow was refused, failed or crashed.
            AirflowSkipException: There was nothing new, or the request does not include the flow.
        """
        report = self._report(context)
        self._send_metrics(context, report)
        match report.state:
            case "refused" | "failed":
                self._ask(report)
                self._fail(report, f"the flow was {report.state}." if report.error is None else report.error.message)
            case "waiting" | "running":
                self._fail(report, CRASHED)
            case "skipped":
                raise AirflowSkipException(". ".join(report.notes) or "An upstream flow did not succeed.")
            case "done" | "idle":
                self._finish(context, report)

    def _send_metrics(self, context: Context, report: FlowReport) -> None:
        progress: list[dict[str, Any]] = []
        try:
            if report.batches:
                path = PipelinePlace(attempt.layout(), self._pipeline.name).ops("progress")
                progress = metrics.read(path, report.flow, attempt.attempt_id(context) or "")
        except Exception as error:
            # A metric never fails a task.
            self.log.warning("the recorded Spark progress cannot be read (%s)", type(error).__name__)
        gauges.send_batches(self._pipeline.name, report, progress)

    def _report(self, context: Context) -> FlowReport:
        report = attempt.report_of_attempt(context)
        if report is None:
            self._fail(None, CRASHED)
        try:
            return report.flow(self._flow.name)
        except KeyError:
            if self._is_excluded(context):
                raise AirflowSkipException("The request of this run does not include this flow.") from None
            self._fail(None, CRASHED)

    def _is_excluded(self, context: Context) -> bool:
        request_id = attempt.request_id(context)
        if request_id is None:
            return False
        request = RunRequest.read(attempt.layout(), *attempt.key_of(context), request_id)
        return self._flow not in request.selected(self._pipeline)

    def _finish(self, context: Context, report: FlowReport) -> None:
        # A flow that is done may have written no row, because all went to quarantine: then there is no event.
        arguments = (context, attempt.layout(), self._pipeline, [self._flow])
        self.outlets = [*attach_updates(*arguments), *attach_intervals(*arguments)]
        if not self.outlets and report.state == "idle":
            raise AirflowSkipException(". ".join([*report.notes, "There was nothing new."]))
        for line in log_lines(report):
            self.log.info("%s", line)

    def _ask(self, report: FlowReport) -> None:
        """Ask a person about a schema change that a frozen contract refused."""
        # A dry run records no schema change that could be answered.
        if not report.dry_run and (message := approval.ask_about(self._pipeline.name, report)) is not None:
            self.log.info("%s", message)

    def _fail(self, report: FlowReport | None, why: str) -> NoReturn:
        for line in log_lines(report) if report is not None else ():
            self.log.info("%s", line)
        # Many errors name their flow themselves.
        owner = "" if f"flow {self._flow.name!r}" in why else f"flow {self._flow.name!r}: "
        lines = [f"{owner}{why}"]
        # A backfill that was refused does not wait: its error says what to do.
        if report is None or all(verdict.is_batch for verdict in report.verdicts):
            step, takes = STATES[state_after(report)].next_step, self._flow.kind.takes_batches
            if step is not None:
                advice = step_for(step, self._pipeline.name, self._flow.name, takes_batches=takes)
                lines.append(f"Next: {advice.text}.")
        raise TaskFailure("\n".join([*lines, CLEARING_HINT]))


def _inlets(flows: Sequence[Flow]) -> list[Asset]:
    """The Assets whose earlier events a task reads that sends the events of these flows."""
    tables = [table_asset(flow.target.name) for flow in flows]
    return [*tables, *(interval_asset(flow.target.name) for flow in flows if flow.intervals is not None)]


def _outlets(flows: Sequence[Flow]) -> list[Asset | AssetAlias]:
    """The Assets and aliases of which such a task may send events."""
    tables = [table_asset(flow.target.name) for flow in flows]
    return [*tables, *(interval_alias(flow.target.name) for flow in flows if flow.intervals is not None)]
