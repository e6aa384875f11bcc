"""One DAG per pipeline: ``plan`` >> ``run`` (a setup task) >> one light task per flow.

``plan`` ends the run without a JVM when nothing is new. ``run`` is one Spark application for all flows. A flow's task
only shows how that flow fared, so that the grid says which flow was refused and clearing it is the natural gesture:
because ``run`` is its setup, Airflow clears ``run`` with it, and Spark reads the waiting batch again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
from airflow.sdk import DAG, AssetAny, CronDataIntervalTimetable, Param, TriggerRule

from tidegate.airflow.assets import table_asset
from tidegate.airflow.attempt import PLAN, RUN
from tidegate.airflow.declaration import describe
from tidegate.airflow.retry import ReportRetryPolicy
from tidegate.airflow.submit import RunFlows
from tidegate.airflow.tasks import PlanRun, ShowFlow
from tidegate.request import MEANINGS, MODES
from tidegate.spec import AfterTables, Flow, Pipeline

_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
"""Beside the format, which Airflow checks loosely."""

RETRY_DELAY = timedelta(seconds=30)
"""Between tries that the retry policy has no opinion about, for example after a crash."""


def build_dag(pipeline: Pipeline) -> DAG:
    """The DAG that runs a pipeline.

    Args:
        pipeline: A declaration; its name becomes the DAG's id.

    Returns:
        The DAG, to be bound to a global name of a file under ``dags/``.
    """
    with DAG(
        dag_id=pipeline.name,
        description=pipeline.description or None,
        doc_md=describe(pipeline),
        schedule=_schedule(pipeline),
        start_date=pendulum.from_format(pipeline.start_date, "YYYY-MM-DD", tz=pipeline.timezone),
        catchup=False,
        # Two runs would only wait for each other's lease.
        max_active_runs=1,
        # A cleared run follows today's declaration: that is usually why somebody clears it.
        rerun_with_latest_version=True,
        params=_params(pipeline),
        tags=_tags(pipeline),
        default_args={"owner": pipeline.owner},
    ) as dag:
        plan = PlanRun(pipeline=pipeline, task_id=PLAN, retries=pipeline.retries, retry_delay=RETRY_DELAY)
        run = RunFlows(
            what=pipeline.name,
            task_id=RUN,
            retries=pipeline.retries,
            retry_delay=RETRY_DELAY,
            retry_policy=ReportRetryPolicy(),
            # Counts scheduled, manual and backfill runs alike, and needs no pool that somebody has to create.
            max_active_tis_per_dag=1,
        )
        run.as_setup()  # type: ignore[no-untyped-call]  # Airflow's own
        plan >> run
        shown: dict[str, ShowFlow] = {}
        for flow in pipeline.flows:
            shown[flow.name] = _show(pipeline, flow)
            above = pipeline.upstream_of(flow)
            (shown[above.name] if above is not None else run) >> shown[flow.name]
    return dag


def _show(pipeline: Pipeline, flow: Flow) -> ShowFlow:
    return ShowFlow(
        pipeline=pipeline,
        flow=flow,
        task_id=flow.name,
        retries=0,
        # A flow without rows is skipped and must not skip the next; a refused one stops it. Right behind a setup
        # task Airflow allows no other rule than all_success.
        trigger_rule=TriggerRule.ALL_SUCCESS if pipeline.upstream_of(flow) is None else TriggerRule.NONE_FAILED,
    )


def _schedule(pipeline: Pipeline) -> CronDataIntervalTimetable | AssetAny | None:
    if pipeline.schedule is None:
        return None
    if isinstance(pipeline.schedule, AfterTables):
        return AssetAny(*(table_asset(table) for table in pipeline.schedule.tables))
    # A bare cron string would make intervals of no length.
    return CronDataIntervalTimetable(pipeline.schedule, timezone=pipeline.timezone)


def _tags(pipeline: Pipeline) -> list[str]:
    layers = {flow.target.layer for flow in pipeline.flows}
    return sorted({"tidegate", *layers, *pipeline.tags})


def _params(pipeline: Pipeline) -> dict[str, Any]:
    names = [flow.name for flow in pipeline.flows]
    day: dict[str, Any] = {"type": ["null", "string"], "format": "date", "pattern": _DAY}
    return {
        "mode": Param(
            MODES[0],
            type="string",
            enum=list(MODES),
            title="Mode",
            description_md="\n".join(f"- `{mode}`: {meaning}" for mode, meaning in MEANINGS.items()),
        ),
        "flows": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "enum": names},
            uniqueItems=True,
            examples=names,
            title="Flows",
            description="Only these flows; empty means all that the mode is for.",
        ),
        "from_date": Param(
            None,
            **day,
            title="From",
            description="First day, in the pipeline's time zone: of a replay by event time, of a reingest by when files were "
            "changed or messages sent.",
        ),
        "to_date": Param(None, **day, title="To", description="Last day, included."),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Only say what would be done, in the log of `plan`; nothing runs.",
        ),
    }
