"""``tidegate docs``: pages from ledger and verdicts, without a JVM."""

from __future__ import annotations

from tests.cli.project import Project, orders
from tidegate.report import BatchRecord


def test_it_makes_the_pages_and_says_where_they_begin(project: Project) -> None:
    pipeline = project.declare(orders())
    project.record(
        pipeline,
        BatchRecord(flow="silver", batch_id=3, app_id="orders/silver/v1/0", kind="upsert", read=10, written=10),
    )
    told = project.run("docs", "orders", JAVA_HOME="/nowhere")

    assert (told.code, told.err) == (0, "")
    site = project.layout.docs("orders")
    assert told.out.strip() == str(site / "index.html")
    assert "10 rows read: 10 written." in (site / "silver" / "v1-0-batch-3.html").read_text()


def test_a_pipeline_that_is_not_declared_is_refused(project: Project) -> None:
    project.declare(orders())
    told = project.run("docs", "flights")
    assert told.code == 64
    assert not project.layout.docs("flights").exists()
