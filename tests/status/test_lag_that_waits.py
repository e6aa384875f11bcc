"""Reasons of flows that wait for a person or for a swap."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests import places
from tests.resolved import resolved_flow
from tests.spark_files import DeltaLog, add, delta_offset, txn
from tests.status.sample_project import BRONZE, GOLD, SILVER, SampleProject
from tidegate.checkpoints import refusal, rewrite
from tidegate.checkpoints.pending_jobs import UNDO, PendingUndo
from tidegate.checkpoints.refusal import REFUSAL
from tidegate.checkpoints.rewrite import JudgedRewrite
from tidegate.lake.place import FlowPlace, Place
from tidegate.reports.impact import Impact
from tidegate.spec import Pipeline, Statistic, Thresholds


def test_a_refused_batch_waits_for_a_person_and_blocks_downstream_flows(project: SampleProject) -> None:
    project.refuse_silver()
    project.table("silver.trips").commit(add("a", 3))
    lag = project.measure(SILVER)
    assert (lag.wait is not None, lag.has_work, lag.progress.pending_batch) == (True, False, 1)
    assert lag.reason == "waits: batch 1 was refused by trips/silver; fix the suite, the transform or the data"
    plan = project.plan()
    assert plan.work is False
    assert [lag.has_work for lag in plan.readings] == [False, False, False]
    assert plan.reasons[2] == "gold: waits for silver: refused"
    assert project.plan(GOLD).work is True, "planned alone, gold has new data to read"


def test_new_files_are_work_for_flows_upstream_of_a_refused_flow_only(project: SampleProject) -> None:
    project.refuse_silver()
    project.land("a.csv")
    plan = project.plan()
    assert plan.work is True
    assert plan.reasons == (
        "bronze: 1 new file in trips",
        "silver: waits: batch 1 was refused by trips/silver; fix the suite, the transform or the data",
        "gold: waits for silver: refused",
    )


def test_a_changed_suite_lets_a_refused_batch_be_judged_again(project: SampleProject) -> None:
    project.refuse_silver()
    project.suite.write_text(json.dumps({"name": "trips/silver", "expectations": [{"type": "x"}]}))
    lag = project.measure(SILVER)
    assert (lag.wait is not None, lag.has_work) == (False, True)


def test_changed_code_lets_a_refused_batch_be_judged_again(project: SampleProject) -> None:
    project.refuse_silver()
    other = replace(SILVER, transform="clickstream:clean")
    assert project.measure(other, Pipeline(name="trips", flows=(BRONZE, other))).has_work is True


def test_a_batch_on_which_the_transform_raises_waits_for_its_code_or_its_share(project: SampleProject) -> None:
    project.refuse_silver()
    project.refuse(1, transform_error_share=0.1)
    project.suite.write_text(json.dumps({"name": "trips/silver", "expectations": [{"type": "x"}]}))
    lag = project.measure(SILVER)
    assert (lag.wait is not None, lag.has_work) == (True, False)
    assert lag.reason == "waits: batch 1 was refused, because transform flights:clean raises; correct the transform"

    for changed in (
        replace(SILVER, transform="clickstream:clean"),
        replace(SILVER, thresholds=Thresholds(transform_error_share=0.5)),
    ):
        assert project.measure(changed, Pipeline(name="trips", flows=(BRONZE, changed))).has_work is True


def test_a_held_batch_waits_for_a_decision_or_for_other_statistics(project: SampleProject) -> None:
    rows = Statistic("rows", "count(*)", rule="value > 0")
    silver = replace(SILVER, statistics=(rows,))
    pipeline = Pipeline(name="trips", flows=(BRONZE, silver))
    resolved = resolved_flow(silver, pipeline, project.environment.project)
    project.refuse_silver()
    project.refuse(1, statistics_fingerprint=resolved.statistics_fingerprint())

    lag = project.measure(silver, pipeline)

    assert (lag.refused_by, lag.has_work) == ("statistic", False)
    assert (
        lag.reason
        == "waits: batch 1 is held, because a statistic of it breaks its rule; accept it, or send it to quarantine"
    )
    looser = replace(silver, statistics=(replace(rows, rule="value >= 0"),))
    assert project.measure(looser, Pipeline(name="trips", flows=(BRONZE, looser))).has_work
    place = places.current(project.layout, pipeline, silver)
    refusal.decide(place, silver, by="ada", reason="a holiday", action="accept")
    lag = project.measure(silver, pipeline)
    assert (lag.has_work, lag.reason) == (True, "batch 1 was planned and not committed; 1 new version of bronze.trips")
    project.refuse(1)
    assert project.measure(silver, pipeline).refused_by == "gate", "what is accepted is not judged by the suite"


@pytest.mark.parametrize("content", ["", "[]", '{"batch_id": 0}', "{"])
def test_an_invalid_refusal_note_does_not_block_the_flow(project: SampleProject, content: str) -> None:
    project.refuse_silver()
    Path(REFUSAL.path(Place(project.layout, "trips", "silver", 1, 0))).write_text(content)
    assert project.measure(SILVER).has_work is True


def test_a_missing_suite_does_not_block_the_flow_because_the_job_reports_it(project: SampleProject) -> None:
    project.refuse_silver()
    project.suite.unlink()
    assert project.measure(SILVER).has_work is True


def test_a_full_refresh_waits_to_be_swapped_in_until_the_table_has_it(project: SampleProject) -> None:
    log = project.table("bronze.trips")
    log.commit(add("a", 3))
    live = project.table("silver.trips")
    live.commit(add("a", 3), txn("trips/silver/v1/0", 0))
    silver = replace(SILVER, checkpoint_version=2)
    pipeline = Pipeline(name="trips", flows=(BRONZE, silver))
    project.checkpoint("silver", version=2).run(0, delta_offset(1))
    staged = DeltaLog(Place(project.layout, "trips", "silver", 2, 0).staging)
    staged.commit(add("a", 3), txn("trips/silver/v2/0", 0))
    lag = project.measure(silver, pipeline)
    assert (lag.has_work, lag.reason) == (True, "a full refresh waits to be swapped in")
    place = places.current(project.layout, pipeline, silver)
    loss = Impact(before=9, after=0, deleted=9, changed=0, added=0, read=9, quarantined=0)
    refused = JudgedRewrite(what="swap of v2/0", app_id=place.app_id, impact=loss, reasons=(loss.phrase("deleted"),))
    rewrite.record(place, refused)
    waiting = project.measure(silver, pipeline)
    assert (waiting.wait is not None, waiting.has_work) == (True, False)
    assert "swap of v2/0 was refused on" in waiting.reason and "delete 9 of 9 rows (100.0%)" in waiting.reason
    rewrite.record(place, replace(refused, app_id=place.windows_app_id, what="backfill 0 of 2026-01-01"))
    lag = project.measure(silver, pipeline)
    assert (lag.wait is not None, lag.has_work) == (False, True), "nothing waits for a backfill"
    assert "backfill 0 of 2026-01-01 was refused on" in lag.reason
    rewrite.record(place, replace(refused, reasons=(), accepted=("silver:deleted=9",)))
    assert project.measure(silver, pipeline).reason == "a full refresh waits to be swapped in", "it was accepted"
    assert project.plan(silver, pipeline=pipeline).small is False, "a refresh is never small"
    live.commit(txn("trips/silver/v2/0", 0))
    assert project.measure(silver, pipeline).has_work is False, "a staging folder that remains after a crash is no work"


def test_an_interrupted_undo_is_work_also_without_new_data(project: SampleProject) -> None:
    before = project.measure(SILVER)
    assert not before.has_work
    undo = PendingUndo(number=0, undoes="r", commits=(), planned_at_ms=0, run_id="u", requested_by="ada")
    UNDO.write(FlowPlace(project.layout, "trips", "silver"), undo)
    after = project.measure(SILVER)
    assert after.has_work
    assert after.reason.startswith("an undo was interrupted and will be finished first")
