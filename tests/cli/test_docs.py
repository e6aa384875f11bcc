"""``tidegate docs``: exports pages from ledger and verdicts without a JVM."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.project import Project, orders
from tidegate.lake.place import PipelinePlace
from tidegate.reports.ledger_line import LedgerLine

pytestmark = pytest.mark.slow


def test_pages_are_exported_and_the_index_path_is_printed(project: Project) -> None:
    pipeline = project.declare(orders())
    for number in (2, 3):
        line: dict[str, Any] = {"flow": "silver", "batch_id": number, "app_id": "orders/silver/v1/0", "kind": "upsert"}
        project.record(pipeline, LedgerLine(**line, read=10, written=10))
    result = project.run("docs", "orders", JAVA_HOME="/nowhere")

    assert (result.code, result.err) == (0, "")
    site = PipelinePlace(project.layout, "orders").docs
    assert result.out.strip() == str(site / "index.html")
    assert "10 rows read: 10 written." in (site / "silver" / "v1-0-batch-3.html").read().data.decode()

    out = project.folder / "out"
    result = project.run("docs", "orders", "--out", str(out), "--newest", "1")
    assert (result.code, result.out.strip()) == (0, str(out / "index.html"))
    assert [path.name for path in (out / "silver").glob("v*")] == ["v1-0-batch-3.html"]


def test_a_folder_with_other_files_is_refused(project: Project) -> None:
    project.declare(orders())
    (project.folder / "mine.txt").write_text("mine")
    result = project.run("docs", "orders", "--out", str(project.folder))
    assert result.code == 64
    assert "files that are not of an export" in result.err
    assert (project.folder / "mine.txt").read_text() == "mine"


def test_an_undeclared_pipeline_is_refused(project: Project) -> None:
    project.declare(orders())
    result = project.run("docs", "flights")
    assert result.code == 64
    assert not PipelinePlace(project.layout, "flights").docs.exists()
