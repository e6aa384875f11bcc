"""The delay that a watermark needs, from the rows of table and late table."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.resolved import resolved_flow
from tests.status.sample_project import BRONZE, SILVER, TRIPS
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import ledger
from tidegate.planning import delay
from tidegate.planning.delay import DelayProposal
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spec import Table
from tidegate.store import Address

pytestmark = pytest.mark.slow

FLOW = dataclasses.replace(SILVER, target=Table("silver.trips", event_time="left_at"))
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.local(tmp_path / "lake", tmp_path / "landing")


def write(path: Address, *rows: tuple[float, float | None]) -> None:
    """Append rows: the minute at which each came, and the minute of its event time."""
    moment = pa.timestamp("us", tz="UTC")
    times = [(NOON + timedelta(minutes=at), None if of is None else NOON + timedelta(minutes=of)) for at, of in rows]
    ingested, left = (pa.array(list(column), moment) for column in zip(*times, strict=True))
    path.make_folder()
    write_deltalake(str(path), pa.table({"left_at": left, "_ingested_at": ingested}), mode="append")


def measure(layout: Layout, share: float = 0.001, flow: object = FLOW) -> DelayProposal:
    assert isinstance(flow, type(FLOW))
    return delay.measure(layout, resolved_flow(flow, dataclasses.replace(TRIPS, flows=(BRONZE, flow))), share)


def test_a_row_is_as_late_as_its_event_time_is_before_the_highest_of_earlier_batches(layout: Layout) -> None:
    table, late = layout.table("silver.trips"), FlowPlace(layout, "trips", "silver").late
    # The first batch is not late, whatever the order of its rows; the third is compared with the first, not with the second.
    write(table, (1, 10), (1, -500), (2, 5), (2, 4.5), (3, 9), (3, None))
    write(late, (3, -80), (3, 4))

    advice = measure(layout, share=0.15)

    assert (advice.rows, advice.batches) == (7, 3)
    assert advice.late == {
        **{"10 seconds": 5, "30 seconds": 5, "1 minute": 4, "2 minutes": 4, "5 minutes": 3, "10 minutes": 1},
        **{"15 minutes": 1, "30 minutes": 1, "1 hour": 1, "2 hours": 0},
    }
    assert (advice.worst_seconds, advice.ahead_seconds) == (90 * 60, 9 * 60)
    assert advice.proposed == "10 minutes"


@pytest.mark.parametrize("minutes", [-3 * 1440, -20, 20, 3 * 1440])
def test_rows_come_in_the_order_of_the_commits_whatever_the_clock_that_planned_them(
    layout: Layout, minutes: int
) -> None:
    planned = (1, 2 + minutes, 3)
    write(layout.table("silver.trips"), (planned[0], 10), (planned[1], 5), (planned[2], 12))
    app_id = "trips/bronze/v1/0"
    for version, minute in enumerate(planned):
        path = layout.table("bronze.trips")
        path.make_folder()
        transaction = CommitProperties(app_transactions=[Transaction(app_id, version)])
        write_deltalake(str(path), pa.table({"id": [version]}), mode="append", commit_properties=transaction)
        batch = LedgerLine(
            flow="bronze",
            batch_id=version,
            app_id=app_id,
            kind="append",
            read=1,
            written=1,
            target_version=version,
            planned_at=NOON + timedelta(minutes=minute),
        )
        ledger.record(PipelinePlace(layout, "trips"), batch, ledger.RunOrigin())

    advice = measure(layout)

    assert advice.late == {**dict.fromkeys(("10 seconds", "30 seconds", "1 minute", "2 minutes"), 1), "5 minutes": 0}


def test_late_rows_of_an_earlier_checkpoint_do_not_count_once_more(layout: Layout) -> None:
    table, late = layout.table("silver.trips"), FlowPlace(layout, "trips", "silver").late
    write(table, (1, 10), (2, 5))
    made = CommitProperties(app_transactions=[Transaction(app_id="trips/silver/v2/0", version=0)])
    empty = DeltaTable(str(table)).to_pyarrow_table().slice(0, 0)
    write_deltalake(str(table), empty, mode="append", commit_properties=made)
    late.make_folder()
    times = pa.array([NOON + timedelta(minutes=at) for at in (5, -80, -80)], pa.timestamp("us", tz="UTC"))
    ingested = pa.array([NOON + timedelta(minutes=2)] * 3, pa.timestamp("us", tz="UTC"))
    columns = {"left_at": times, "_ingested_at": ingested, "_checkpoint_version": [1, 1, 2], "_refresh": [0, 0, 0]}
    write_deltalake(str(late), pa.table(columns))

    advice = measure(layout, flow=dataclasses.replace(FLOW, checkpoint_version=2))

    assert (advice.rows, advice.late["5 minutes"], advice.late["1 hour"]) == (3, 1, 1)


@pytest.mark.parametrize(("share", "proposed"), [(0.0, "2 hours"), (0.5, "5 minutes"), (1.0, "10 seconds")])
def test_the_shortest_delay_is_proposed_by_which_at_most_the_accepted_share_is_late(
    layout: Layout, share: float, proposed: str
) -> None:
    write(layout.table("silver.trips"), (1, 10), (2, 5), (2, 4.5), (3, 9), (3, -80), (3, 4))

    assert measure(layout, share).proposed == proposed


def test_rows_that_no_delay_could_wait_for_get_no_proposal(layout: Layout) -> None:
    write(layout.table("silver.trips"), (1, 0), (2, -50 * 1440))

    assert (measure(layout).proposed, list(measure(layout).late)) == (None, list(delay.DELAYS))


def test_rows_in_order_need_the_shortest_delay(layout: Layout) -> None:
    write(layout.table("silver.trips"), (1, 0), (2, 1))

    advice = measure(layout)

    assert (advice.late, advice.worst_seconds, advice.ahead_seconds) == ({"10 seconds": 0}, 0, -60)


def test_a_flow_without_rows_or_without_event_time_cannot_be_measured(layout: Layout) -> None:
    with pytest.raises(RequestError, match=r"has written no row yet.*Run it first: tidegate run trips --flow silver"):
        measure(layout)
    with pytest.raises(RequestError, match="must read a bronze table and append to a table with event_time"):
        measure(layout, flow=SILVER)
