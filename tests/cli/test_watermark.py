"""`tidegate watermark advise` prints how many rows each delay would drop, and proposes one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.project import Project
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table, Watermark

pytestmark = pytest.mark.slow

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def declare(project: Project, watermark: Watermark | None) -> None:
    bronze = Flow(
        name="bronze", source=FileSource(path="trips", format="json", schema="id INT"), target=Table("bronze.trips")
    )
    silver = Flow(
        name="silver",
        source=ChangeFeed("bronze.trips"),
        transform="trips:clean",
        target=Table("silver.trips", event_time="left_at"),
        watermark=watermark,
    )
    project.declare(Pipeline(name="trips", flows=(bronze, silver)))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Three rows: the second batch of bronze has one that is seven minutes older than the first."""
    project = Project.make(tmp_path / "project")
    declare(project, None)
    times = ((0, 0), (1, -7), (1, 1))
    rows = [
        {"left_at": NOON + timedelta(minutes=left), "_ingested_at": NOON + timedelta(minutes=at)} for at, left in times
    ]
    project.table("silver.trips", rows)
    return project


def test_a_delay_is_proposed_by_the_rows_that_the_flow_has_read(project: Project) -> None:
    result = project.run("watermark", "advise", "trips", "silver")

    assert result.code == 0, result.err
    assert result.row("5 minutes").split()[2:] == ["1", "33.3", "%"]
    assert result.row("10 minutes ").split()[2:] == ["0", "0", "%"]
    assert result.out.splitlines()[-2:] == [
        "3 rows of 2 batches of bronze: the latest has an event time 7 min before the highest of earlier batches.",
        "Proposed, for at most 0.1 % late rows: watermark=Watermark(delay='10 minutes')",
    ]
    assert (
        project.run("watermark", "advise", "trips", "silver", "--share", "0.5", "--json").json["proposed"]
        == "10 seconds"
    )


def test_a_proposal_that_is_shorter_than_the_declared_delay_says_what_it_needs(project: Project) -> None:
    declare(project, Watermark(delay="1 hour"))

    result = project.run("watermark", "advise", "trips", "silver")

    assert result.out.endswith("(declared: '1 hour'; a shorter delay needs checkpoint_version=2)\n"), result.err


def test_a_flow_that_cannot_have_a_watermark_is_a_usage_error(project: Project) -> None:
    result = project.run("watermark", "advise", "trips", "bronze")

    assert (result.code, result.err.startswith("tidegate: flow 'bronze' cannot have a watermark")) == (64, True)
