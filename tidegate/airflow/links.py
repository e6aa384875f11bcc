"""Extra links of tasks in Airflow: the page of a flow, and the Spark history server if one is configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

from tidegate.airflow.attempt import ATTEMPT_KEY, PIPELINE_KEY, layout
from tidegate.airflow.urls import FRAMED, AppLinks
from tidegate.environment import Environment
from tidegate.lake.layout import run_key
from tidegate.lake.place import AttemptPlace
from tidegate.reports.report import RunReport

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


class ReportsLink(BaseOperatorLink):
    """Links a flow's task to the page of its batches."""

    name = "Data quality reports"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page of the flow."""
        return AppLinks(FRAMED).flow(ti_key.dag_id, ti_key.task_id)


class HistoryLink(BaseOperatorLink):
    """Links `run` to its application on the Spark history server."""

    name = "Spark history"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The application of the last attempt; empty when no application started or no server is configured."""
        server = Environment.read().spark_history
        attempt = XCom.get_value(ti_key=ti_key, key=ATTEMPT_KEY)
        pipeline = XCom.get_value(ti_key=ti_key, key=PIPELINE_KEY)
        if server is None or not isinstance(attempt, str) or not isinstance(pipeline, str):
            return ""
        report = RunReport.read(AttemptPlace(layout(), pipeline, run_key(ti_key.run_id), attempt).report)
        return f"{server}/history/{report.application}/jobs/" if report is not None and report.application else ""
