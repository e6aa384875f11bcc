"""`tidegate undo` before a JVM starts. An undo itself is run by the guide to backfills, and in `tests/spark/reprocessing/test_undo.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.project import Project, orders
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spec import Pipeline

pytestmark = pytest.mark.slow


def increment(project: Project, pipeline: Pipeline) -> None:
    app_id = f"{pipeline.name}/silver/v1/0"
    line = LedgerLine(flow="silver", batch_id=3, app_id=app_id, kind="upsert", read=10, written=10)
    project.record(pipeline, line)


def test_a_run_that_no_ledger_has_exits_with_64(project: Project) -> None:
    project.declare(orders())
    result = project.run("undo", "manual__1")
    assert result.code == 64
    assert "no ledger has a line of run 'manual__1'" in result.err


def test_an_increment_is_refused_with_what_to_do_instead(project: Project) -> None:
    increment(project, project.declare(orders()))
    result = project.run("undo", "run-1")
    assert result.code == 64
    assert "run run-1 has nothing that can be undone: silver: batch 3 stays: it is an increment" in result.err
    assert "correct the code or the suite and backfill its days" in result.err
    assert not list((Path(project.layout.root) / "reports").glob("**/*.request.json")), "no request is stored"


def test_a_run_id_of_two_pipelines_needs_the_name_of_one(project: Project) -> None:
    increment(project, project.declare(orders()))
    increment(project, project.declare(orders(topic="clicks")))
    result = project.run("undo", "run-1")
    assert (result.code, "several pipelines have a run 'run-1': clicks, orders" in result.err) == (64, True), result.err
    assert "nothing that can be undone" in project.run("undo", "run-1", "--pipeline", "clicks").err
