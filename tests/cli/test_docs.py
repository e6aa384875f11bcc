"""``tidegate docs``: rebuilds pages from ledger and verdicts without a JVM."""

from __future__ import annotations

from tests.cli.project import Project, orders
from tidegate.report import BatchRecord


def test_pages_are_rebuilt_and_the_index_path_is_printed(project: Project) -> None:
    pipeline = project.declare(orders())
    project.record(
        pipeline,
        BatchRecord(flow="silver", batch_id=3, app_id="orders/silver/v1/0", kind="upsert", read=10, written=10),
    )
    result = project.run("docs", "orders", JAVA_HOME="/nowhere")

    assert (result.code, result.err) == (0, "")
    site = project.layout.docs("orders")
    assert result.out.strip() == str(site / "index.html")
    assert "10 rows read: 10 written." in (site / "silver" / "v1-0-batch-3.html").read_text()


def test_an_undeclared_pipeline_is_refused(project: Project) -> None:
    project.declare(orders())
    result = project.run("docs", "flights")
    assert result.code == 64
    assert not project.layout.docs("flights").exists()
