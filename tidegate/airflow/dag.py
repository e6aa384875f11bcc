"""One DAG per pipeline: ``plan`` >> ``run`` (a setup task) >> one light task per flow.

``plan`` ends the run without a JVM when nothing is new. ``run`` is one Spark application for all flows. A flow's task only
shows the result of that flow, so that the grid shows which flow was refused. Clearing that task is enough to retry it: ``run``
is its setup task, so Airflow clears ``run`` with it, and Spark reads the pending batch again.
"""

from __future__ import annotations

import logging
from typing import Any

from airflow.sdk import DAG, AssetAny, Param, TriggerRule

from tidegate.airflow import compat
from tidegate.airflow.assets import interval_asset, table_asset
from tidegate.airflow.attempt import PLAN, RUN
from tidegate.airflow.broken import Broken
from tidegate.airflow.compat import CronDataIntervalTimetable
from tidegate.airflow.declaration import describe
from tidegate.airflow.retry import LONGEST_DELAY, RETRIES, RETRY_DELAY, FailureRetryPolicy
from tidegate.airflow.submit import RunFlows
from tidegate.airflow.tasks import PlanRun, ShowFlow
from tidegate.environment import Environment
from tidegate.project.resolution import ResolvedPipeline, resolve
from tidegate.requests.parameters import RUN_ID
from tidegate.requests.runs import modes
from tidegate.spec import AfterTables, Flow, Pipeline
from tidegate.times import dates

log = logging.getLogger("tidegate")


def build_dag(pipeline: Pipeline) -> DAG:
    """The DAG that runs a pipeline; its id is the pipeline's name. Bind it to a global name in a file under ``dags/``.

    A flow without its suite or its transform does not prevent the import: it is named in the DAG's documentation and in the log
    of the import, and fails in each run. So does a table of a list that is not valid, which has a task of its own.

    Raises:
        SpecError: A table has two writers, or no flow writes a source: Airflow shows the import error.
    """
    return dag_of(resolve(pipeline, Environment.read().project))


def dag_of(resolved: ResolvedPipeline) -> DAG:
    """The DAG of a pipeline whose graph has a meaning."""
    pipeline = resolved.pipeline
    for each in resolved.flows:
        if each.error is not None:
            log.error("%s", each.error.message)
    with DAG(
        dag_id=pipeline.name,
        description=pipeline.description or None,
        doc_md=describe(resolved),
        schedule=_schedule(pipeline),
        start_date=dates.midnight(pipeline.start_date, pipeline.timezone),
        catchup=False,
        # A second run would only wait for the lease of the first.
        max_active_runs=1,
        # A cleared run uses the current declaration; a changed declaration is the usual reason to clear it.
        **compat.LATEST_VERSION,
        params=_params(pipeline),
        tags=_tags(pipeline),
        default_args={
            "owner": pipeline.owner,
            "retry_delay": RETRY_DELAY,
            **compat.retries(FailureRetryPolicy(), LONGEST_DELAY),
        },
    ) as dag:
        plan = PlanRun(pipeline=resolved, task_id=PLAN, retries=pipeline.retries)
        run = RunFlows(
            label=pipeline.name,
            task_id=RUN,
            retries=pipeline.retries,
            # Covers scheduled, manual and backfill runs, and needs no pool that would have to be created.
            max_active_tis_per_dag=1,
        )
        run.as_setup()  # type: ignore[no-untyped-call]  # untyped in Airflow
        plan >> run
        shows: dict[str, ShowFlow] = {}
        for flow in pipeline.flows:
            shows[flow.name] = _show(pipeline, flow)
            upstream = [shows[each.name] for each in pipeline.upstream_of(flow)]
            (upstream or run) >> shows[flow.name]
        for table in pipeline.invalid_tables:
            # No flow has this name. It fails in each run, and stops no other task.
            Broken(
                task_id=f"{table.name}-invalid",
                retries=0,
                problem=table.error.message,
                exit_code=table.error.exit_code,
            )
    return dag


def _show(pipeline: Pipeline, flow: Flow) -> ShowFlow:
    return ShowFlow(
        pipeline=pipeline,
        flow=flow,
        task_id=flow.name,
        retries=RETRIES,
        # A flow without new rows is skipped and must not skip the next one; a refused flow stops it. Directly below a setup
        # task Airflow allows only all_success.
        trigger_rule=TriggerRule.NONE_FAILED if pipeline.upstream_of(flow) else TriggerRule.ALL_SUCCESS,
    )


def _schedule(pipeline: Pipeline) -> CronDataIntervalTimetable | AssetAny | None:
    if pipeline.schedule is None:
        return None
    if isinstance(pipeline.schedule, AfterTables):
        asset = interval_asset if pipeline.schedule.intervals else table_asset
        return AssetAny(*map(asset, pipeline.schedule.tables))
    # A plain cron string would create data intervals of zero length.
    return CronDataIntervalTimetable(pipeline.schedule, timezone=pipeline.timezone)


def _tags(pipeline: Pipeline) -> list[str]:
    layers = {flow.target.layer for flow in pipeline.flows}
    return sorted({"tidegate", *layers, *pipeline.tags, *(["broken"] if pipeline.invalid_tables else [])})


def _params(pipeline: Pipeline) -> dict[str, Any]:
    names = [flow.name for flow in pipeline.flows]
    # Airflow checks the format `date` loosely.
    day: dict[str, Any] = {"type": ["null", "string"], "format": "date", "pattern": f"^{dates.PATTERN}$"}
    return {
        "mode": Param(
            "incremental",
            type="string",
            enum=list(modes()),
            title="Mode",
            description_md="\n".join(f"- `{mode}`: {meaning}" for mode, meaning in modes().items()),
        ),
        "flows": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "enum": names},
            uniqueItems=True,
            examples=names,
            title="Flows",
            description="Only these flows; empty means all flows that the mode applies to.",
        ),
        "from_date": Param(
            None,
            **day,
            title="From",
            description="First day, in the pipeline's time zone: of a backfill by event time, of a reingest by when files were "
            "changed or messages sent.",
        ),
        "to_date": Param(None, **day, title="To", description="Last day, included."),
        "gaps": Param(
            False,
            type="boolean",
            title="Gaps alone",
            description="Only for `reingest`, of sources that declare intervals: the files of days or hours that are not complete; "
            "with dates, of those days.",
        ),
        "undo_run": Param(
            None,
            type=["null", "string"],
            pattern=f"^({RUN_ID})$",
            title="Run to undo",
            description="Only for `undo`: the id of the run whose changes are put back.",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Write nothing. The log of `plan` shows what would be read; for a backfill, a full refresh or a new version "
            "Spark also derives the rows, and the flows' tasks show how many would be deleted, changed and quarantined. "
            "Of an undo: in the log of each flow.",
        ),
        "accept": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "pattern": "^[a-z][a-z0-9_]*:(deleted|quarantined|lost)=[0-9]+$"},
            title="Accept",
            description="Numbers of rows that a refused backfill, full refresh or new version deletes or quarantines, one per line, "
            "as its error and the dry run name them, for example silver:deleted=355; of `recover` what is lost, as its error names it, for "
            "example bronze:lost=2. Another number is refused again.",
        ),
    }
