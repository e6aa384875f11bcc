"""How far a flow has read each of its sources, from its checkpoint."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.project import Project, append
from tests.cli.test_trace import offset
from tests.trace.test_lineage import PIPELINE
from tidegate import json_codec
from tidegate.checkpoints.vector import STARTS
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace, Place
from tidegate.project import resolution
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spec import ChangeFeed, Flow, Pipeline, State, Table
from tidegate.trace.changes import Ledger
from tidegate.trace.reading import SourcePosition

STATEFUL = dataclasses.replace(
    PIPELINE,
    flows=(
        *PIPELINE.flows,
        Flow(
            name="first",
            source=ChangeFeed("silver.visits"),
            transform="shop:first",
            target=Table("gold.first"),
            state=State(partitions=2),
        ),
    ),
)


def reading(layout: Layout, flow: str, table: str, pipeline: Pipeline = PIPELINE) -> SourcePosition:
    position = SourcePosition.of(layout, resolution.resolve(pipeline, Path(layout.root), {}).flow(flow), table)
    assert position is not None
    return position


def next_versions(layout: Layout, flow: str) -> list[int]:
    """The first version of each source of which not all has been read."""
    return [reading(layout, flow, table).next_version for table in PIPELINE.flow(flow).source_tables]


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
    json_codec.write(STARTS.path(Place(project.layout, "shop", "pages", 1, 0)), {"silver.clicks": 3, "silver.users": 2})
    checkpoint.plan(0, offset(5), None).commit(0)
    assert next_versions(project.layout, "pages") == [5, 3], "of users nothing after the version with which it began"
    checkpoint.plan(1, offset(5), offset(9)).commit(1)
    assert next_versions(project.layout, "pages") == [5, 9]


def test_the_batch_that_read_a_change_of_one_of_several_sources_is_named(project: Project) -> None:
    checkpoint = project.checkpoint(PIPELINE, PIPELINE.flow("pages"))
    json_codec.write(STARTS.path(Place(project.layout, "shop", "pages", 1, 0)), {"silver.clicks": 3, "silver.users": 2})
    checkpoint.plan(0, offset(5), None).commit(0).plan(1, offset(5), offset(9)).commit(1)
    app_id = "shop/pages/v1/0"
    positions = [(None, [offset(5), None]), ([offset(5), None], [offset(5), offset(9)])]
    read = [{"flow": "pages", "app_id": app_id, "recorded_at": datetime(2026, 1, 1, tzinfo=UTC)}] * 2
    append(
        PipelinePlace(project.layout, "shop").ops("progress"),
        [
            {**line, "batch_id": number, "start_offset": start and json.dumps(start), "end_offset": json.dumps(end)}
            for number, (line, (start, end)) in enumerate(zip(read, positions, strict=True))
        ],
    )
    for number in (0, 1):
        line = LedgerLine(flow="pages", batch_id=number, app_id=app_id, kind="recompute")
        project.record(PIPELINE, line)
    ledger = Ledger(FlowPlace(project.layout, "shop", "pages"))

    (of_clicks,) = reading(project.layout, "pages", "silver.clicks").explain(4, ledger)
    (of_users,) = reading(project.layout, "pages", "silver.users").explain(8, ledger)
    assert of_clicks == "batch 0 read it; the transform made no row of its group, or a later change removed it"
    assert of_users.startswith("batch 1 read it")


def test_a_stateful_flow_has_read_its_source_whatever_it_has_read_of_the_heartbeats_before_it(project: Project) -> None:
    checkpoint = project.checkpoint(STATEFUL, STATEFUL.flow("first"))
    ledger = Ledger(FlowPlace(project.layout, "shop", "first"))

    def explained(version: int) -> tuple[str, ...]:
        return reading(project.layout, "first", "silver.visits", STATEFUL).explain(version, ledger)

    checkpoint.plan(0, offset(1), None).commit(0)
    assert explained(0) == ("shop/first has not read version 0 yet",)
    checkpoint.plan(1, offset(2), offset(9)).commit(1)
    positions = [([None, None], [offset(1), None]), ([offset(1), None], [offset(2), offset(9)])]
    shared = {"flow": "first", "app_id": "shop/first/v1/0", "recorded_at": datetime(2026, 1, 1, tzinfo=UTC)}
    append(
        PipelinePlace(project.layout, "shop").ops("progress"),
        [
            {**shared, "batch_id": number, "start_offset": json.dumps(start), "end_offset": json.dumps(end)}
            for number, (start, end) in enumerate(positions)
        ],
    )

    result = "no result has its _row_id: a result may be of several rows, or not be made yet"
    assert explained(8) == (f"batch 1 read it; {result}",)
    assert explained(9) == ("shop/first has not read version 9 yet",)
