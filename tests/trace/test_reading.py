"""How far a flow has read each of its sources, from its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.project import Project
from tests.cli.test_trace import offset
from tests.trace.test_lineage import PIPELINE
from tidegate import json_codec, resolution
from tidegate.layout import Layout
from tidegate.trace.reading import Reading


def next_versions(layout: Layout, flow: str) -> list[int]:
    """The first version of each source of which not all has been read."""
    resolved = resolution.resolve(PIPELINE, layout.lake, {}).flow(flow)
    readings = [Reading.of(layout, resolved, table) for table in resolved.flow.source_tables]
    return [reading.next_version for reading in readings if reading is not None]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path / "project")


def test_a_flow_that_has_not_run_has_read_nothing(project: Project) -> None:
    assert next_versions(project.layout, "hours") == [0]


def test_a_version_is_read_when_the_position_is_behind_it_and_not_before(project: Project) -> None:
    checkpoint = project.checkpoint(PIPELINE, PIPELINE.flow("hours"))
    checkpoint.plan(0, offset(4)).commit(0)
    assert next_versions(project.layout, "hours") == [4]
    checkpoint.plan(1, offset(7))
    assert next_versions(project.layout, "hours") == [4], "the batch is not committed"


def test_each_source_of_a_join_has_its_own_position(project: Project) -> None:
    checkpoint = project.checkpoint(PIPELINE, PIPELINE.flow("pages"))
    json_codec.write(project.layout.starts("shop", "pages", 1, 0), {"silver.clicks": 3, "silver.users": 2})
    checkpoint.plan(0, offset(5), None).commit(0)
    assert next_versions(project.layout, "pages") == [5, 3], "of users nothing after the version with which it began"
    checkpoint.plan(1, offset(5), offset(9)).commit(1)
    assert next_versions(project.layout, "pages") == [5, 9]
