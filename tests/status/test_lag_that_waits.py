"""A flow that waits for a person, or for a swap, says so."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.status.place import BRONZE, GOLD, SILVER, Place
from tests.written import DeltaLog, add, delta_offset, txn
from tidegate.spec import Pipeline


def test_a_refused_batch_waits_for_a_person_and_so_do_the_flows_below(place: Place) -> None:
    place.refuse_silver()
    place.table("silver.trips").commit(add("a", 3))
    told = place.measure(SILVER)
    assert (told.refused, told.has_work, told.pending_batch) == (True, False, 1)
    assert told.reason == "waits: batch 1 was refused by trips/silver; mend the suite, the transform or the data"
    plan = place.plan()
    assert plan.work is False
    assert [below.has_work for below in plan.lags] == [False, False, False]
    assert plan.reasons[2] == "gold: waits: flow silver does not get through"
    assert place.plan(GOLD).work is True, "asked for alone, gold has its own to read"


def test_new_files_are_work_above_a_refused_flow_and_not_for_it(place: Place) -> None:
    place.refuse_silver()
    place.land("a.csv")
    plan = place.plan()
    assert plan.work is True
    assert plan.reasons == (
        "bronze: 1 new file in trips",
        "silver: waits: batch 1 was refused by trips/silver; mend the suite, the transform or the data",
        "gold: waits: flow silver does not get through",
    )


def test_a_changed_suite_lets_a_refused_batch_be_judged_again(place: Place) -> None:
    place.refuse_silver()
    place.suite.write_text(json.dumps({"name": "trips/silver", "expectations": [{"type": "x"}]}))
    told = place.measure(SILVER)
    assert (told.refused, told.has_work) == (False, True)


def test_changed_code_lets_a_refused_batch_be_judged_again(place: Place) -> None:
    place.refuse_silver()
    other = replace(SILVER, transform="clickstream:clean")
    assert place.measure(other, Pipeline(name="trips", flows=(BRONZE, other))).has_work is True


@pytest.mark.parametrize("content", ["", "[]", '{"batch_id": 0}', "{"])
def test_a_note_that_does_not_fit_holds_nothing_up(place: Place, content: str) -> None:
    place.refuse_silver()
    place.layout.refusal("trips", "silver", 1, 0).write_text(content)
    assert place.measure(SILVER).has_work is True


def test_a_suite_that_is_gone_holds_nothing_up_because_the_job_says_so(place: Place) -> None:
    place.refuse_silver()
    place.suite.unlink()
    assert place.measure(SILVER).has_work is True


def test_a_full_refresh_waits_to_be_swapped_in_until_the_table_holds_it(place: Place) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 3))
    live = place.table("silver.trips")
    live.commit(add("a", 3), txn("trips/silver/v1/0", 0))
    silver = replace(SILVER, checkpoint_version=2)
    pipeline = Pipeline(name="trips", flows=(BRONZE, silver))
    place.checkpoint("silver", version=2).run(0, delta_offset(1))
    staged = DeltaLog(place.layout.staging("trips", "silver", 2, 0))
    staged.commit(add("a", 3), txn("trips/silver/v2/0", 0))
    told = place.measure(silver, pipeline)
    assert (told.has_work, told.reason) == (True, "a full refresh waits to be swapped in")
    assert place.plan(silver, pipeline=pipeline).small is False, "a refresh is never small"
    live.commit(txn("trips/silver/v2/0", 0))
    assert place.measure(silver, pipeline).has_work is False, "a folder that a crash left behind is no work"
