"""Replay with a whole pipeline and its gate: exactly once, in order, and every row in exactly one place.

Tests of single cases with small frames are in `tests/spark/reprocessing/test_replay.py`.
"""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from demo import checks, flights_feed
from tests.deployment import Deployment
from tidegate.lake.place import PipelinePlace
from tidegate.ops.table import line_of
from tidegate.pages.site import export
from tidegate.project import registry
from tidegate.reports.ledger_line import LedgerLine

pytestmark = pytest.mark.jvm


def records() -> tuple[flights_feed.Record, ...]:
    """Sixty flights of one day."""
    return flights_feed.days()[date(2013, 1, 1)][:60]


def within(minutes: int) -> list[dict[str, Any]]:
    """A suite that quarantines flights with a larger deviation from the schedule, in minutes."""
    kwargs = {"column": "dep_delay", "min_value": -minutes, "max_value": minutes}
    return [{"type": "expect_column_values_to_be_between", "kwargs": kwargs, "severity": "warning"}]


def late(more_than: int) -> list[flights_feed.Record]:
    return [record for record in records() if record["dep_delay"] != "NA" and abs(int(record["dep_delay"])) > more_than]


@pytest.fixture
def flights(deployment: Deployment, spark: Any) -> Deployment:
    """Silver of one small day, with many rows in quarantine because of a strict suite."""
    deployment.edit_suite("flights/silver", within(5))
    deployment.land("one.csv", flights_feed.as_csv(records()))
    deployment.run(flows=["bronze", "silver"])
    assert deployment.quarantined("silver").num_rows == len(late(5)) > 10
    return deployment


def states(flights: Deployment, flow: str = "silver") -> Counter[str]:
    return Counter(flights.quarantined(flow)["state"].to_pylist())


def pages(flights: Deployment) -> dict[str, bytes]:
    """The pages of all batches."""
    index = export(flights.layout, registry.load("flights"), PipelinePlace(flights.layout, "flights").docs)
    folder = Path(index.parent)
    contents = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("v*.html")}
    assert any("batch-0" in name for name in contents)
    return contents


def replays(flights: Deployment) -> list[LedgerLine]:
    lines = [line for line in flights.ledger() if line["kind"] == "replay"]
    assert {line["requested_by"] for line in lines} <= {"ada"}
    return [line_of(LedgerLine, line) for line in lines]


def expect_every_row_in_one_place(flights: Deployment) -> None:
    """Each row is in silver, open, or older than its row in silver; the ledger agrees."""
    table = flights.quarantined("silver")
    assert len(set(table["_row_id"].to_pylist())) == table.num_rows
    assert set(table["_in_hand"].to_pylist()) == {None}
    lines = replays(flights)
    assert [line.imbalance() for line in lines] == [0] * len(lines)
    assert checks.quarantine_states(flights.layout, registry.load("flights")).passed
    still_open = {row["_row_id"] for row in table.to_pylist() if row["state"] == "open"}
    silver = flights.table("silver.flights")["_row_id"].to_pylist()
    assert len(silver) == len(set(silver))
    assert not still_open & set(silver)


@pytest.mark.nightly
def test_rows_that_pass_the_present_suite_are_written_and_the_others_keep_their_entries(
    flights: Deployment,
) -> None:
    newer = {**late(5)[0], "dep_delay": "0", "published_on": "2013-01-09T06:00:00Z"}
    flights.land("two.csv", flights_feed.as_csv([newer]))
    flights.edit_suite("flights/silver", within(20))
    flights.run(flows=["bronze", "silver"])
    written = flights.table("silver.flights").num_rows

    reports = pages(flights)
    preview = flights.replay("silver", dry_run=True)
    assert pages(flights) == reports, "no page of a batch changes"
    assert (preview.dry_run, states(flights)) == (True, {"open": len(late(5))})
    report = flights.replay("silver")

    assert report.error is None
    (line,) = replays(flights)
    assert (line.read, line.quarantined) == (len(late(5)), len(late(20)))
    assert (line.superseded, line.written) == (1, len(late(5)) - len(late(20)) - 1)
    assert [preview.total(count) for count in ("read", "written", "quarantined")] == [
        line.read,
        line.written,
        line.quarantined,
    ]
    assert flights.table("silver.flights").num_rows == written + line.written
    newest = [row for row in flights.table("silver.flights").to_pylist() if row["published_on"].day == 9]
    assert [row["dep_delay"] for row in newest] == [0], "an old row never replaces a newer one"
    returned = [row for row in flights.quarantined("silver").to_pylist() if row["state"] == "open"]
    assert {(row["attempts"], tuple(row["rules"]), row["changed_by"]) for row in returned} == {
        (1, ("between(dep_delay)",), "ada")
    }
    expect_every_row_in_one_place(flights)

    again = flights.replay("silver")
    assert [again.total(count) for count in ("read", "written", "quarantined")] == [
        line.quarantined,
        0,
        line.quarantined,
    ]
    assert flights.replay("silver", rule="malformed_line").state == "idle"
    expect_every_row_in_one_place(flights)
