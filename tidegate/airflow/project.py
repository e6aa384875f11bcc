"""All DAGs of a project by one call, from one file of it."""

from __future__ import annotations

import importlib
import logging
import os
from pathlib import Path

import pendulum
from airflow.sdk import DAG, get_parsing_context

from tidegate.airflow.attempt import ALERTS, PLAN, QUARANTINE
from tidegate.airflow.broken import Broken
from tidegate.airflow.dag import dag_of
from tidegate.environment import Environment
from tidegate.errors import TidegateError
from tidegate.project import folder, resolution
from tidegate.project.resolution import ResolvedPipeline

log = logging.getLogger("tidegate")

OF_PROJECT = {
    ALERTS: ("tidegate.airflow.alerts", "build_alerts_dag"),
    QUARANTINE: ("tidegate.airflow.quarantine", "build_quarantine_dag"),
    "schema_approval": ("tidegate.airflow.approval", "build_schema_approval"),
}
"""The DAGs that each project has beside those of its pipelines: module and function, by id."""


def build_dags(file: str) -> dict[str, DAG]:
    """All DAGs of the project that has a file: one per pipeline, and those for alerts, quarantine and schema changes.

    The file has ``globals().update(build_dags(__file__))`` and may be in any folder of the project, also of a copy of it, as a DAG bundle
    is. That project becomes the one of this process: its folder is put before others of ``sys.path``, and into ``TIDEGATE_PROJECT``. For a
    file outside of a project it is the one of the settings.

    A pipeline whose declaration does not load, or whose graph has no meaning, does not prevent the others: its DAG has no schedule, the tag
    ``broken``, the error as its documentation, and a task that fails with it.

    Args:
        file: ``__file__`` of the file.

    Returns:
        The DAGs by their ids. In the process of a task, only the task's DAG.

    Raises:
        SetupError: A setting is invalid.
    """
    project = folder.find(Path(file)) or Environment.read().project
    os.environ["TIDEGATE_PROJECT"] = str(project)
    folder.make_importable(project)
    only = get_parsing_context().dag_id
    dags: dict[str, DAG] = {}
    if only not in OF_PROJECT:
        for name, resolved in resolution.load_all(project).items():
            if only in (None, name):
                dags[name] = _dag(name, resolved)
    for name, (module, function) in OF_PROJECT.items():
        if only in (None, name):
            dags[name] = getattr(importlib.import_module(module), function)()
    return dags


def _dag(name: str, resolved: ResolvedPipeline | TidegateError) -> DAG:
    if isinstance(resolved, ResolvedPipeline):
        return dag_of(resolved)
    log.error("%s", resolved.message)
    with DAG(
        dag_id=name,
        doc_md=f"**This pipeline cannot run.** {resolved.message}",
        schedule=None,
        start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
        tags=["broken", "tidegate"],
    ) as dag:
        Broken(task_id=PLAN, retries=0, problem=resolved.message, exit_code=resolved.exit_code)
    return dag
