"""Queries of batches for pages, on real Delta tables and without a JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.airflow.lake import Lake
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.ops import evolution
from tidegate.ops.journal import Journal
from tidegate.schema.changes import SchemaChange

pytestmark = pytest.mark.slow

ADA = {"mode": "backfill", "requested_by": "ada"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    layout = Layout.local(tmp_path / "lake", tmp_path / "landing")
    layout.open()
    return Lake(layout)


def lines_of(lake: Lake) -> list[tuple[str, str, str]]:
    lines = Journal(lake.layout).lines("flights", flow="silver", limit=10)
    return [(line.label, line.outcome, line.request_label) for line in lines]


def test_a_refused_backfill_is_distinct_from_the_batch_with_its_number(lake: Lake) -> None:
    lake.verdict("silver", 0, "split")
    lake.batch("flights", "silver", 0, read=3, written=2, quarantined=1)
    lake.verdict("silver", 0, "refused", ("in_set(origin)",), purpose="window", request=ADA)
    assert lines_of(lake) == [("backfill 0", "refused", "backfill by ada"), ("batch 0", "split", "")]
    backfill, batch = Journal(lake.layout).lines("flights", limit=10)
    assert (backfill.is_batch, backfill.record, backfill.unmet) == (False, None, ("in_set(origin)",))
    assert (batch.is_batch, batch.page, backfill.page) == (True, "v1-0-batch-0", None)


def test_a_held_batch_waits_for_a_person_and_not_for_a_suite(lake: Lake) -> None:
    lake.verdict("silver", 0, "refused", ("statistic(rows)",), suite="")
    lake.verdict("silver", 1, "refused", ("statistic(rows)", "in_set(origin)"))

    by_suite, by_statistic = Journal(lake.layout).lines("flights", limit=10)

    assert "waits until a person accepts it or takes it out" in by_statistic.missing
    assert "waits until its suite" in by_suite.missing


def test_a_replay_and_a_batch_that_a_frozen_contract_refused_are_lines_without_a_record(lake: Lake) -> None:
    batches = [("flights/silver/v2/1", 3), ("flights/silver/v2/1", 4), ("flights/silver/replay", 0)]
    for app_id, batch_id in batches:
        line = evolution.SchemaHistoryLine(
            flow="silver",
            event="refused",
            change=SchemaChange(kind="addition", field="gate", after="string"),
            decision="freeze",
            schema_change_id="0a1b2c3d4e5f",
            version_before=2,
            version_after=2,
            app_id=app_id,
            batch_id=batch_id,
        )
        evolution.record(PipelinePlace(lake.layout, "flights"), [line])

    replay, second, first = Journal(lake.layout).lines("flights", limit=10)

    assert (replay.label, replay.outcome, replay.page, replay.checkpoint_version) == ("replay 0", "refused", None, None)
    assert (first.label, first.outcome, first.page) == ("batch 3", "refused", "v2-1-batch-3")
    assert (second.label, second.outcome, second.page) == ("batch 4", "refused", "v2-1-batch-4"), "of the same change"


def test_a_swap_is_distinct_from_the_batch_before_it_and_has_no_verdict(lake: Lake) -> None:
    lake.verdict("silver", 4, "passed")
    lake.batch("flights", "silver", 4, read=3, written=3)
    lake.batch("flights", "silver", 4, kind="swap", groups=9, unchanged=9, request={"mode": "full_refresh"})
    assert lines_of(lake) == [("swap", "", "full refresh"), ("batch 4", "passed", "")]


def test_a_summary_counts_only_batches(lake: Lake) -> None:
    lake.batch("flights", "silver", 0, read=100, written=100)
    lake.batch("flights", "silver", 0, read=7, written=7, purpose="window", kind="backfill", request=ADA)
    lake.batch("flights", "silver", 0, groups=5, upserted=5, kind="swap")
    lake.batch("flights", "gold", 0, read=9, groups=2, upserted=2, purpose="window", request=ADA)
    summaries = Journal(lake.layout).summaries(["flights"])
    assert list(summaries) == [("flights", "silver")], "a flow of which only a window was backfilled has no batch"
    summary = summaries["flights", "silver"]
    assert (summary.batch_id, summary.read_today, summary.trend) == (0, 100, (100,))
    assert [version.batches for version in Journal(lake.layout).versions("flights", "silver")] == [1]
