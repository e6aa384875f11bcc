"""When a heartbeat of a flow is due, and that plan then says that there is work."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests import places
from tests.resolved import resolved_flow
from tests.spark_files import delta_offset
from tests.status.sample_project import BRONZE, SILVER, TRIPS, SampleProject
from tidegate.lake.place import PipelinePlace
from tidegate.ops import heartbeats, ledger
from tidegate.ops.heartbeats import Heartbeat
from tidegate.probes import delta
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spec import Table, Watermark
from tidegate.status import idle
from tidegate.times import dates

pytestmark = pytest.mark.slow

TIMED = dataclasses.replace(
    SILVER, target=Table("silver.trips", event_time="at"), watermark=Watermark(delay="10 minutes", idle="1 hour")
)
PIPELINE = dataclasses.replace(TRIPS, flows=(BRONZE, TIMED))
NOW = datetime.now(UTC)


def ingest(project: SampleProject, at: datetime) -> int:
    """Append a batch to bronze; returns its version."""
    rows = pa.table({"_ingested_at": pa.array([at], pa.timestamp("us", tz="UTC"))})
    path = project.layout.table("bronze.trips")
    write_deltalake(str(path), rows, mode="append")
    return len(list(Path(path / "_delta_log").glob("*.json"))) - 1


def read(project: SampleProject, version: int, batch_id: int = 0) -> None:
    """Let the flow read bronze up to a version."""
    table_id = delta.table_id(project.layout.table("bronze.trips"))
    project.checkpoint("silver").run(batch_id, delta_offset(version + 1, table_id=table_id))


def due_heartbeat(project: SampleProject, now: datetime = NOW) -> Heartbeat | None:
    place = places.current(project.layout, PIPELINE, TIMED)
    return idle.heartbeat_due(resolved_flow(TIMED, PIPELINE), place, now)


@pytest.fixture
def quiet(project: SampleProject) -> SampleProject:
    """Nothing came for 61 minutes, and the flow has read everything."""
    read(project, ingest(project, NOW - timedelta(minutes=61)))
    return project


def test_after_idle_time_a_heartbeat_is_due_once_in_that_time_and_plan_has_work(quiet: SampleProject) -> None:
    beat = due_heartbeat(quiet)
    assert beat is not None and dates.from_micros(beat.event_time) == NOW - timedelta(hours=1)
    plan = quiet.plan(TIMED, pipeline=PIPELINE)
    assert (plan.work, plan.reasons) == (
        True,
        ("silver: nothing new in bronze.trips; a heartbeat is due, because no rows came for 1 hour",),
    )

    heartbeats.append(places.current(quiet.layout, PIPELINE, TIMED), beat)

    assert due_heartbeat(quiet, NOW + timedelta(minutes=59)) is None
    assert quiet.plan(TIMED, pipeline=PIPELINE).work is False
    assert due_heartbeat(quiet, NOW + timedelta(minutes=61)) is not None


def test_no_heartbeat_is_due_while_rows_are_unread_or_a_batch_of_bronze_is_planned(quiet: SampleProject) -> None:
    version = ingest(quiet, NOW - timedelta(minutes=61))
    assert due_heartbeat(quiet) is None, "rows that came before the heartbeat would be late by it"
    read(quiet, version, batch_id=1)
    assert due_heartbeat(quiet) is not None

    quiet.checkpoint("bronze").plan(0, {"logOffset": 0})

    assert due_heartbeat(quiet) is None, "a batch of bronze counts from when it was planned"


def test_a_longer_delay_does_not_move_the_watermark_of_a_heartbeat_back(quiet: SampleProject) -> None:
    place, beat = places.current(quiet.layout, PIPELINE, TIMED), due_heartbeat(quiet)
    assert beat is not None
    heartbeats.append(place, beat)
    lines = heartbeats.read(place)
    made = dates.micros(NOW - timedelta(minutes=70))

    assert lines == [beat]
    assert [heartbeats.watermark(place, lines, delay, before=1) for delay in (600, 7_200)] == [made, made]
    new = dataclasses.replace(place, version=2)
    assert heartbeats.watermark(new, lines, 7_200) == dates.micros(NOW - timedelta(hours=3))


def test_no_heartbeat_is_due_that_would_not_move_the_watermark(quiet: SampleProject) -> None:
    line = LedgerLine(
        flow="silver", batch_id=0, app_id="trips/silver/v1/0", kind="append", watermark=NOW - timedelta(minutes=70)
    )
    run = ledger.RunOrigin(checkpoint_version=1, refresh=0)
    ledger.record(PipelinePlace(quiet.layout, "trips"), line, run)

    assert due_heartbeat(quiet) is None
    assert due_heartbeat(quiet, NOW + timedelta(seconds=1)) is not None


@pytest.mark.parametrize("declared", [None, Watermark(delay="10 minutes")])
def test_a_flow_that_declares_no_idle_time_needs_none(quiet: SampleProject, declared: Watermark | None) -> None:
    flow = dataclasses.replace(TIMED, watermark=declared)
    place = places.current(quiet.layout, PIPELINE, flow)

    assert idle.heartbeat_due(resolved_flow(flow, PIPELINE), place, NOW) is None


def test_a_flow_that_has_read_nothing_needs_no_heartbeat(project: SampleProject) -> None:
    ingest(project, NOW - timedelta(days=1))

    assert due_heartbeat(project) is None


def test_the_watermark_of_a_checkpoint_is_that_of_its_batches_its_heartbeats_and_replays_into_its_table(
    project: SampleProject, tmp_path: Path
) -> None:
    place = places.current(project.layout, PIPELINE, TIMED)
    assert heartbeats.watermark(place, [], 600) is None

    def at(minutes: int) -> datetime:
        return NOW + timedelta(minutes=minutes)

    def record(app_id: str, batch_id: int, minutes: int | None, refresh: int = 0) -> None:
        mark = None if minutes is None else at(minutes)
        line = LedgerLine(flow="silver", batch_id=batch_id, app_id=app_id, kind="append", watermark=mark)
        ledger.record(
            PipelinePlace(project.layout, "trips"), line, ledger.RunOrigin(checkpoint_version=1, refresh=refresh)
        )

    record("trips/silver/v1/0", 0, None)
    assert ledger.watermark(place) is None
    record("trips/silver/v1/0", 1, 10)
    record("trips/silver/v1/0", 2, 20)
    record("trips/silver/v1/1", 0, 99, refresh=1)
    record("trips/silver/replay", 0, 98, refresh=1)
    assert (ledger.watermark(place), ledger.watermark(place, 2)) == (at(20), at(10))
    record("trips/silver/replay", 1, 15)
    assert ledger.watermark(place, 2) == at(15)

    others = Heartbeat(event_time=dates.micros(at(97)), at=0, app_id="trips/silver/v1/1")
    own = Heartbeat(event_time=dates.micros(at(40)), at=0, app_id=place.app_id)
    assert heartbeats.watermark(place, [others, own], 600, before=9) == dates.micros(at(30))
    assert heartbeats.watermark(place, [others, own], 600) == dates.micros(at(87)), "now all count"
