"""Batches read from the ledger, the verdicts and the schema changes that Tidegate's own code wrote, without a JVM."""

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
REQUEST = RunRequest(dag_id="flights", run_id="run-1")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "lake", tmp_path / "landing")


def record(layout: Layout, batch: Batch) -> None:
    """Write a batch as a driver does: the verdict, then the ledger line if it passed."""
    ref = SimpleNamespace(version=batch.checkpoint_version, refresh=batch.refresh)
    plain = SimpleNamespace(
        layout=layout, pipeline=FLIGHTS, run_key=batch.run_key, request=REQUEST, attempt=batch.attempt, ref=ref
    )
    context = cast("FlowContext", plain)
    if batch.verdict is not None:
        record_verdict(context, batch.verdict)
    if batch.record is not None:
        record_batch(context, batch.record)


def change(layout: Layout, **columns: Any) -> None:
    import pyarrow
    from deltalake import write_deltalake

    plain = {"flow": "silver", "event": "observed", "app_id": "flights/silver/v1/0", "batch_id": 1, "run_key": "r"}
    line = {
        **plain,
        "schema_change_id": "",
        "recorded_at": datetime(2013, 2, 1, tzinfo=UTC),
        "breaks": ["-"],
        "before": "",
        "after": "",
        **columns,
    }
    path = layout.ops("flights", "evolution")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_deltalake(str(path), pyarrow.Table.from_pylist([line]), mode="append", schema_mode="merge")


def test_a_pipeline_that_never_ran_has_no_batches(layout: Layout) -> None:
    assert batches(layout, "flights") == []
    index = rebuild(layout, FLIGHTS)
    assert index.read_text().count("no batch yet") == 3


def test_a_batch_is_read_as_the_driver_recorded_it(layout: Layout) -> None:
    recorded = samples.batch(1)
    record(layout, recorded)
    (batch,) = batches(layout, "flights")
    assert (batch.record, batch.verdict, batch.run_key, batch.attempt) == (
        recorded.record,
        recorded.verdict,
        recorded.run_key,
        recorded.attempt,
    )
    assert [judgement.outcome for judgement in batch.judgements] == ["split"]


def test_a_refused_batch_has_no_line_and_a_batch_that_passed_later_has_both_judgements(layout: Layout) -> None:
    record(layout, samples.batch(0))
    record(layout, samples.batch(1, outcome="refused"))
    assert [(batch.batch_id, batch.entry().outcome) for batch in batches(layout, "flights")] == [
        (0, "split"),
        (1, "refused"),
    ]
    record(layout, samples.batch(1))
    passed = batches(layout, "flights")[-1]
    assert passed.entry().outcome == "split"
    assert [judgement.outcome for judgement in passed.judgements] == ["refused", "split"]


def test_the_verdict_of_an_earlier_attempt_is_shown_on_the_page(layout: Layout) -> None:
    """The attempt was killed after the write to quarantine; the next one does not judge again."""
    batch = samples.batch(1)
    record(layout, batch)
    page = publish(layout, FLIGHTS, Batch(**{**vars(batch), "verdict": None}))
    assert "carrier values must not be null" in page.read_text()


def test_schema_changes_are_shown_only_on_the_page_of_their_batch(layout: Layout) -> None:
    for number in (0, 1, 2):
        record(layout, samples.batch(number))
    change(layout, field="gate", kind="added", after="STRING", breaks=["flights/gold"])
    change(layout, batch_id=0, app_id="flights/silver/v2/0", field="other", kind="added")
    changes = {batch.batch_id: batch.changes for batch in batches(layout, "flights")}
    assert changes == {
        0: (),
        1: ({"field": "gate", "kind": "added", "after": "STRING", "event": "observed", "breaks": "flights/gold"},),
        2: (),
    }
    assert "<td>flights/gold</td>" in publish(layout, FLIGHTS, samples.batch(1)).read_text()


def test_a_backfill_has_no_page_and_its_verdict_belongs_to_no_batch(layout: Layout) -> None:
    """The window backfill 0 passed, backfill 1 was refused; batch 0 was split, and there is no batch 1."""
    window = "flights/silver/v1/0/window"
    batch = samples.batch(0)
    record(layout, batch)
    line = dataclasses.replace(samples.record(0), app_id=window, kind="backfill")
    verdict = dataclasses.replace(samples.verdict(0, "passed"), app_id=window)
    record(layout, dataclasses.replace(batch, record=line, verdict=verdict))
    refused = dataclasses.replace(samples.verdict(1, "refused"), app_id=window)
    record(layout, dataclasses.replace(samples.batch(1), record=None, verdict=refused))

    (only,) = batches(layout, "flights")

    assert (only.batch_id, only.verdict) == (0, batch.verdict)
    assert [judgement.outcome for judgement in only.judgements] == ["split"]
    rebuild(layout, FLIGHTS)
    assert [path.name for path in layout.docs("flights").glob("silver/v*.html")] == ["v1-0-batch-0.html"]
    page = publish(layout, FLIGHTS, dataclasses.replace(batch, verdict=None)).read_text()
    assert "this is the last verdict" not in page, "a later attempt reads only the batch's own verdict"


def test_an_accepted_gap_changes_no_page(layout: Layout) -> None:
    record(layout, samples.batch(1))
    index = rebuild(layout, FLIGHTS)
    before = {path: path.read_text() for path in index.parent.rglob("*.html")}
    gap.accept(layout, "flights", "silver", "clicks", "an id", {0: (10, 14)}, by="ada", reason="they were tests")
    ledger.record_gaps(layout, "flights", "silver")
    rebuild(layout, FLIGHTS)
    assert {path: path.read_text() for path in index.parent.rglob("*.html")} == before


def test_after_a_full_refresh_a_batch_does_not_show_schema_changes_of_the_earlier_batch_with_its_number(
    layout: Layout,
) -> None:
    record(layout, samples.batch(1))
    record(layout, dataclasses.replace(samples.batch(1), refresh=1, record=of_refresh_1(1), verdict=None))
    change(layout, field="gate", kind="added", app_id="flights/silver/v1/0")
    change(layout, field="terminal", kind="added", app_id="flights/silver/v1/1")
    fields = {batch.refresh: [change["field"] for change in batch.changes] for batch in batches(layout, "flights")}
    assert fields == {0: ["gate"], 1: ["terminal"]}


def of_refresh_1(number: int) -> BatchRecord:
    return dataclasses.replace(samples.record(number), app_id="flights/silver/v1/1")


SCHEMA_CHANGE = {
    "event": "refused",
    "field": "gate",
    "kind": "addition",
    "decision": "freeze",
    "schema_change_id": "0a1b2c3d4e5f",
}


def test_the_page_of_a_batch_that_a_contract_refused_has_the_command_to_answer(layout: Layout) -> None:
    record(layout, samples.batch(0))
    publish(layout, FLIGHTS, samples.batch(0))
    change(layout, **SCHEMA_CHANGE, app_id="flights/silver/v1/0", run_key="run-2", decided_by="")
    waiting = dataclasses.replace(
        samples.batch(1), record=None, verdict=None, schema_change_id=SCHEMA_CHANGE["schema_change_id"]
    )
    page = publish(layout, FLIGHTS, waiting)
    assert page.name == "v1-0-batch-1.html"
    text = page.read_text()
    assert "tidegate contract answer flights 0a1b2c3d4e5f evolve" in text
    assert "<td>gate</td>" in text
    assert "outcome refused" in text

    rebuild(layout, FLIGHTS)
    assert "tidegate contract answer flights 0a1b2c3d4e5f evolve" in page.read_text()

    answer = {**SCHEMA_CHANGE, "event": "answered", "decision": "evolve"}
    change(layout, **answer, app_id="flights/silver/v1/0", decided_by="ada")
    rebuild(layout, FLIGHTS)
    assert "ada answered evolve; the flow's next run applies the answer" in unescape(page.read_text())

    record(layout, samples.batch(1))
    rebuild(layout, FLIGHTS)
    assert "contract answer" not in page.read_text()
    assert "<td>ada</td>" in page.read_text(), "the page keeps the author of the answer"


def test_a_backfill_that_a_contract_refused_has_no_page(layout: Layout) -> None:
    change(layout, **SCHEMA_CHANGE, app_id="flights/silver/v1/0/window", decided_by="")
    assert batches(layout, "flights") == []


def test_a_rebuild_replaces_the_site_and_removes_other_files(layout: Layout) -> None:
    for number in range(3):
        record(layout, samples.batch(number))
    site = layout.docs("flights")
    (site / "silver").mkdir(parents=True)
    (site / "silver" / "old.html").write_text("old")
    index = rebuild(layout, FLIGHTS)
    assert index == site / "index.html"
    assert {path.name for path in (site / "silver").iterdir()} == {
        "index.html",
        "history.json",
        *(f"v1-0-batch-{number}.html" for number in range(3)),
    }
    assert [path.name for path in site.parent.iterdir()] == ["flights"]


def test_a_rebuild_writes_the_same_pages_as_the_runs(layout: Layout) -> None:
    sample = [
        samples.bronze(0),
        samples.batch(0),
        samples.gold(0),
        samples.batch(1, outcome="refused"),
        samples.batch(1),
    ]
    for batch in sample:
        record(layout, batch)
        publish(layout, FLIGHTS, batch)
    site = layout.docs("flights")
    before = {path.relative_to(site): without_times(path) for path in site.rglob("*.html")}
    rebuild(layout, FLIGHTS)
    after = {path.relative_to(site): without_times(path) for path in site.rglob("*.html")}
    assert len(before) == 1 + 3 + 4
    assert after == before


def without_times(path: Path) -> str:
    """A page without its times, which differ: the tables have the times of the test run, the samples have fixed ones."""
    return re.sub(r'<time datetime="[^"]+">[^<]+</time>', "<time>", path.read_text(encoding="utf-8"))
