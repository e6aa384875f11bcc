"""If some flows have a source that cannot be read, the other flows still run, with real Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.cli.project import Project, orders
from tidegate.lake.place import PipelinePlace
from tidegate.reports.report import RunReport
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table
from tidegate.store import Address

pytestmark = pytest.mark.jvm


@pytest.mark.nightly
def test_a_folder_that_is_a_file_and_an_unavailable_broker_do_not_stop_other_flows(tmp_path: Path) -> None:
    project = Project.scaffolded(tmp_path / "project")
    (files, *_), (topic, *_) = orders().flows, orders(topic="clicks").flows
    source = FileSource(path="lost", format="csv", schema="order_id STRING NOT NULL, amount DOUBLE")
    lost = replace(files, name="lost", source=source, target=Table("bronze.lost"))
    below = Flow(name="below", source=ChangeFeed("bronze.lost"), transform="sample:clean", target=Table("silver.lost"))
    visits = replace(topic, name="clicks", target=Table("bronze.visits"))
    project.declare(Pipeline(name="mixed", flows=(lost, below, visits, files)))
    project.land("lost", "a file in place of the folder", folder="")
    project.land("1.csv", "order_id,amount\nA-1,1.0\nA-2,2.5\n")

    result = project.run("run", "mixed")

    assert result.code == 78, result.out + result.err
    assert DeltaTable(str(project.layout.table("bronze.orders"))).to_pyarrow_table().num_rows == 2
    assert result.row("lost -> bronze.lost: failed")
    assert result.row("below -> silver.lost: skipped")
    assert result.row("clicks -> bronze.visits: failed")
    assert result.row("bronze -> bronze.orders: done")
    (path,) = Path(PipelinePlace(project.layout, "mixed").reports).glob("*/*/report.json")
    report = RunReport.read(Address.local(path))
    assert report is not None and report.error is None
    errors = {flow.flow: flow.error and (flow.error.kind, flow.error.exit_code) for flow in report.flows}
    assert errors == {
        "lost": ("SourceError", 78),
        "below": None,
        "clicks": ("SourceUnavailableError", 75),
        "bronze": None,
    }
    again = project.run("run", "mixed")
    assert (again.code, "landing folder" in again.err) == (78, True)
    assert len(list(Path(PipelinePlace(project.layout, "mixed").reports).glob("*/*/report.json"))) == 1, (
        "nothing to do, so no JVM was started"
    )
    status = project.run("status", "mixed")
    assert status.row("mixed/lost ", "error") and status.row("mixed/bronze ", "up to date")
