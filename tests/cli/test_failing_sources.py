"""A run of flows of which some have a source that cannot be read, with real Spark: the others' rows arrive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.cli.project import Project, orders
from tidegate.report import RunReport
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table

pytestmark = pytest.mark.jvm


def test_rows_of_a_file_arrive_beside_a_folder_that_is_missing_and_a_broker_that_is_away(tmp_path: Path) -> None:
    project = Project.scaffolded(tmp_path / "project")
    (files, *_), (topic, *_) = orders().flows, orders(topic="clicks").flows
    source = FileSource(path="lost", format="csv", schema="order_id STRING NOT NULL, amount DOUBLE")
    lost = replace(files, name="lost", source=source, target=Table("bronze.lost"))
    below = Flow(name="below", source=ChangeFeed("bronze.lost"), transform="sample:clean", target=Table("silver.lost"))
    project.declare(Pipeline(name="mixed", flows=(lost, below, replace(topic, name="clicks"), files)))
    project.land("1.csv", "order_id,amount\nA-1,1.0\nA-2,2.5\n")

    told = project.run("run", "mixed")

    assert told.code == 78, told.out + told.err
    assert DeltaTable(str(project.layout.table("bronze.orders"))).to_pyarrow_table().num_rows == 2
    assert told.row("lost -> bronze.lost: failed")
    assert told.row("below -> silver.lost: skipped")
    assert told.row("clicks -> bronze.clicks: failed")
    assert told.row("bronze -> bronze.orders: done")
    (path,) = project.layout.reports("mixed").glob("*/*/report.json")
    report = RunReport.read(path)
    assert report is not None and report.error is None
    errors = {flow.flow: flow.error and (flow.error["kind"], flow.error["exit_code"]) for flow in report.flows}
    assert errors == {
        "lost": ("SourceError", 78),
        "below": None,
        "clicks": ("SourceUnavailableError", 75),
        "bronze": None,
    }
    again = project.run("run", "mixed")
    assert (again.code, "landing folder" in again.err) == (78, True)
    assert len(list(project.layout.reports("mixed").glob("*/*/report.json"))) == 1, "nothing is left to do: no JVM"
    standing = project.run("status", "mixed")
    assert standing.row("mixed/lost ", "error") and standing.row("mixed/bronze ", "up to date")
