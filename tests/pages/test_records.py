"""Batches as ledger, verdicts and changes of schema tell of them: tables that the platform's own code wrote, no JVM."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.pages import samples
from tidegate.checkpoints import gap
from tidegate.layout import Layout
from tidegate.ops import ledger
from tidegate.pages import Batch, publish, rebuild
from tidegate.pages.records import batches
from tidegate.report import BatchRecord
from tidegate.request import RunRequest
from tidegate.spark.batch.ledger import record_batch, record_verdict

if TYPE_CHECKING:
    from tidegate.spark.context import FlowContext

FLIGHTS = samples.flights()
ASKED = RunRequest(dag_id="flights", run_id="run-1")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "lake", tmp_path / "landing")


def record(layout: Layout, batch: Batch) -> None:
    """What a driver writes of a batch: the verdict, then the line if it passed."""
    ref = SimpleNamespace(version=batch.checkpoint_version, refresh=batch.refresh)
    plain = SimpleNamespace(
        layout=layout, pipeline=FLIGHTS, run_key=batch.run_key, request=ASKED, attempt=batch.attempt, ref=ref
    )
    context = cast("FlowContext", plain)
    if batch.verdict is not None:
        record_verdict(context, batch.verdict)
    if batch.record is not None:
        record_batch(context, batch.record)


def change(layout: Layout, **told: Any) -> None:
    import pyarrow
    from deltalake import write_deltalake

    plain = {"flow": "silver", "batch_id": 1, "version_before": 1, "version_after": 1, "run_key": "r"}
    line = {
        **plain,
        "recorded_at": datetime(2013, 2, 1, tzinfo=UTC),
        "breaks": ["-"],
        "before": "",
        "after": "",
        **told,
    }
    path = layout.ops("flights", "evolution")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_deltalake(str(path), pyarrow.Table.from_pylist([line]), mode="append", schema_mode="merge")


def test_a_pipeline_that_never_ran_has_no_batches(layout: Layout) -> None:
    assert batches(layout, "flights") == []
    index = rebuild(layout, FLIGHTS)
    assert index.read_text().count("no batch yet") == 3


def test_a_batch_is_what_the_driver_recorded(layout: Layout) -> None:
    told = samples.batch(1)
    record(layout, told)
    (found,) = batches(layout, "flights")
    assert (found.record, found.verdict, found.run_key, found.attempt) == (
        told.record,
        told.verdict,
        told.run_key,
        told.attempt,
    )
    assert [judgement.outcome for judgement in found.judgements] == ["split"]


def test_a_refused_batch_has_no_line_and_a_mended_one_both_judgements(layout: Layout) -> None:
    record(layout, samples.batch(0))
    record(layout, samples.batch(1, outcome="refused"))
    assert [(batch.batch_id, batch.entry().outcome) for batch in batches(layout, "flights")] == [
        (0, "split"),
        (1, "refused"),
    ]
    record(layout, samples.batch(1))
    mended = batches(layout, "flights")[-1]
    assert mended.entry().outcome == "split"
    assert [judgement.outcome for judgement in mended.judgements] == ["refused", "split"]


def test_a_batch_that_an_earlier_attempt_judged_gets_that_verdict_on_its_page(layout: Layout) -> None:
    """The attempt was killed after the write to quarantine; the next one does not judge again."""
    told = samples.batch(1)
    record(layout, told)
    page = publish(layout, FLIGHTS, Batch(**{**vars(told), "verdict": None}))
    assert "carrier values must not be null" in page.read_text()


def test_changes_of_schema_go_to_the_page_of_their_batch_alone(layout: Layout) -> None:
    for number in (0, 1, 2):
        record(layout, samples.batch(number))
    change(layout, field="gate", kind="added", after="STRING", breaks=["flights/gold"])
    change(layout, batch_id=0, version_after=2, field="other", kind="added")
    found = {batch.batch_id: batch.changes for batch in batches(layout, "flights")}
    assert found == {
        0: (),
        1: ({"field": "gate", "kind": "added", "after": "STRING", "breaks": "flights/gold"},),
        2: (),
    }
    assert "<td>flights/gold</td>" in publish(layout, FLIGHTS, samples.batch(1)).read_text()


def test_a_replay_gives_no_batch_its_verdict_and_makes_no_page(layout: Layout) -> None:
    """The window replay 0 passed, replay 1 was refused; batch 0 was split, and there is no batch 1."""
    window = "flights/silver/v1/0/window"
    told = samples.batch(0)
    record(layout, told)
    line = dataclasses.replace(samples.record(0), app_id=window, kind="rederive")
    verdict = dataclasses.replace(samples.verdict(0, "passed"), app_id=window)
    record(layout, dataclasses.replace(told, record=line, verdict=verdict))
    refused = dataclasses.replace(samples.verdict(1, "refused"), app_id=window)
    record(layout, dataclasses.replace(samples.batch(1), record=None, verdict=refused))

    (only,) = batches(layout, "flights")

    assert (only.batch_id, only.verdict) == (0, told.verdict)
    assert [judgement.outcome for judgement in only.judgements] == ["split"]
    rebuild(layout, FLIGHTS)
    assert [page.name for page in layout.docs("flights").glob("silver/v*.html")] == ["v1-0-batch-0.html"]
    again = publish(layout, FLIGHTS, dataclasses.replace(told, verdict=None)).read_text()
    assert "this is the last verdict" not in again, "a later attempt finds the batch's own judgement alone"


def test_messages_that_were_given_up_make_no_page_and_change_none(layout: Layout) -> None:
    record(layout, samples.batch(1))
    index = rebuild(layout, FLIGHTS)
    before = {path: path.read_text() for path in index.parent.rglob("*.html")}
    gap.accept(layout, "flights", "silver", "clicks", "an id", {0: (10, 14)}, by="ada", reason="they were tests")
    ledger.record_gaps(layout, "flights", "silver")
    rebuild(layout, FLIGHTS)
    assert {path: path.read_text() for path in index.parent.rglob("*.html")} == before


def test_after_a_full_refresh_a_batch_does_not_show_the_changes_of_the_one_that_had_its_number(layout: Layout) -> None:
    record(layout, samples.batch(1))
    record(layout, dataclasses.replace(samples.batch(1), refresh=1, record=anew(1), verdict=None))
    change(layout, field="gate", kind="added", app_id="flights/silver/v1/0")
    change(layout, field="terminal", kind="added", app_id="flights/silver/v1/1")
    found = {batch.refresh: [each["field"] for each in batch.changes] for batch in batches(layout, "flights")}
    assert found == {0: ["gate"], 1: ["terminal"]}


def anew(number: int) -> BatchRecord:
    return dataclasses.replace(samples.record(number), app_id="flights/silver/v1/1")


DRIFT = {"event": "refused", "field": "gate", "kind": "addition", "decision": "freeze", "drift": "0a1b2c3d4e5f"}


def test_a_batch_that_its_contract_refused_has_a_page_that_says_how_to_answer(layout: Layout) -> None:
    record(layout, samples.batch(0))
    publish(layout, FLIGHTS, samples.batch(0))
    change(layout, **DRIFT, app_id="flights/silver/v1/0", run_key="run-2", decided_by="")
    waiting = dataclasses.replace(samples.batch(1), record=None, verdict=None, drift=DRIFT["drift"])
    page = publish(layout, FLIGHTS, waiting)
    assert page.name == "v1-0-batch-1.html"
    told = page.read_text()
    assert "tidegate contract answer flights 0a1b2c3d4e5f evolve" in told
    assert "<td>gate</td>" in told
    assert "outcome refused" in told

    rebuild(layout, FLIGHTS)
    assert "tidegate contract answer flights 0a1b2c3d4e5f evolve" in page.read_text()

    answer = {**DRIFT, "event": "answered", "decision": "evolve"}
    change(layout, **answer, app_id="flights/silver/v1/0", decided_by="ada")
    rebuild(layout, FLIGHTS)
    assert "ada answered evolve; the flow's next run acts on it" in unescape(page.read_text())

    record(layout, samples.batch(1))
    rebuild(layout, FLIGHTS)
    assert "contract answer" not in page.read_text()
    assert "<td>ada</td>" in page.read_text(), "who let it through stays on its page"


def test_a_replay_that_its_contract_refused_has_no_page(layout: Layout) -> None:
    change(layout, **DRIFT, app_id="flights/silver/v1/0/window", decided_by="")
    assert batches(layout, "flights") == []


def test_a_site_is_made_anew_and_what_does_not_belong_to_it_goes(layout: Layout) -> None:
    for number in range(3):
        record(layout, samples.batch(number))
    site = layout.docs("flights")
    (site / "silver").mkdir(parents=True)
    (site / "silver" / "left.html").write_text("from before")
    index = rebuild(layout, FLIGHTS)
    assert index == site / "index.html"
    assert {path.name for path in (site / "silver").iterdir()} == {
        "index.html",
        "history.json",
        *(f"v1-0-batch-{number}.html" for number in range(3)),
    }
    assert [path.name for path in site.parent.iterdir()] == ["flights"]


def test_pages_made_anew_are_those_that_the_runs_made(layout: Layout) -> None:
    told = [samples.bronze(0), samples.batch(0), samples.gold(0), samples.batch(1, outcome="refused"), samples.batch(1)]
    for batch in told:
        record(layout, batch)
        publish(layout, FLIGHTS, batch)
    site = layout.docs("flights")
    before = {path.relative_to(site): alike(path) for path in site.rglob("*.html")}
    rebuild(layout, FLIGHTS)
    after = {path.relative_to(site): alike(path) for path in site.rglob("*.html")}
    assert len(before) == 1 + 3 + 4
    assert after == before


def alike(path: Path) -> str:
    """A page without its instants: the tables' are those of the test, the samples' are made up."""
    return re.sub(r'<time datetime="[^"]+">[^<]+</time>', "<time>", path.read_text(encoding="utf-8"))
