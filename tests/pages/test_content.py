"""What pages say about batches that Tidegate's own code recorded: verdicts, schema changes, decisions, without a JVM."""

from __future__ import annotations

import dataclasses
from html import unescape
from pathlib import Path

import pytest

from tests.cli.project import state_progress, stateful_orders
from tests.pages import samples
from tidegate.checkpoints import gap
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import ledger, metrics
from tidegate.pages.content import PageContent
from tidegate.pages.site import export
from tidegate.reports.verdict import ExpectationResult

pytestmark = pytest.mark.slow

FLIGHTS = samples.flights()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.local(tmp_path / "lake", tmp_path / "landing")


def page(layout: Layout, name: str) -> str:
    """A page of silver in a new export."""
    index = export(layout, FLIGHTS, PipelinePlace(layout, "flights").docs)
    return unescape((index.parent / "silver" / f"{name}.html").read().data.decode())


def outcomes(layout: Layout) -> list[tuple[str, str]]:
    """Label and outcome of silver's lines, the newest first."""
    return [(line.label, line.outcome) for line in PageContent(layout).journal.lines("flights", flow="silver", limit=9)]


def judged(layout: Layout, name: str) -> list[str]:
    """The outcomes of all judgements of a batch, the oldest first."""
    values = PageContent(layout).batch(FLIGHTS, "silver", name)
    assert values is not None
    return [judgement.outcome for judgement in values["judgements"]]


def test_a_batch_is_read_as_it_was_recorded(layout: Layout) -> None:
    recorded = samples.batch(1)
    samples.fill(layout, recorded)
    values = PageContent(layout).batch(FLIGHTS, "silver", "v1-0-batch-1")
    assert values is not None
    (judgement,) = values["judgements"]
    assert values["line"].record == recorded.record
    assert vars(recorded.verdict).items() <= vars(judgement).items()
    assert (values["line"].run_key, values["line"].recorded_at) == (recorded.run_key, recorded.at)


@pytest.mark.parametrize("name", ["v1-0-batch-2", "v1-1-batch-1", "v1-0-swap-1", "1", "index", "v1-0-batch-1' OR true"])
def test_a_name_that_no_batch_has_is_no_page(layout: Layout, name: str) -> None:
    samples.fill(layout, samples.batch(1))
    assert PageContent(layout).batch(FLIGHTS, "silver", name) is None


def test_a_refused_batch_has_no_line_and_a_batch_that_passed_later_has_both_judgements(layout: Layout) -> None:
    samples.fill(layout, samples.batch(0), samples.batch(1, outcome="refused"))
    assert outcomes(layout) == [("batch 1", "refused"), ("batch 0", "split")]
    later = samples.batch(1)
    samples.fill(layout, dataclasses.replace(later, at=later.at.replace(minute=59)))
    assert outcomes(layout) == [("batch 1", "split"), ("batch 0", "split")]
    assert judged(layout, "v1-0-batch-1") == ["refused", "split"]


def test_the_verdict_of_an_earlier_attempt_is_shown_on_the_page(layout: Layout) -> None:
    """The attempt was killed after the write to quarantine; the next one does not judge again."""
    batch = samples.batch(1)
    samples.fill(layout, dataclasses.replace(batch, record=None), dataclasses.replace(batch, verdict=None))
    assert "carrier values must not be null" in page(layout, "v1-0-batch-1")


def test_schema_changes_are_shown_on_the_page_of_their_batch_and_of_its_flow(layout: Layout) -> None:
    samples.fill(layout, *(samples.batch(number) for number in (0, 1, 2)))
    samples.change(layout, breaks=("flights/gold",))
    samples.change(layout, batch_id=0, app_id="flights/silver/v2/0", field="other")
    for name, has_changes in (("v1-0-batch-0", False), ("v1-0-batch-1", True), ("v1-0-batch-2", False)):
        assert ("<td>flights/gold</td>" in page(layout, name)) == has_changes
    own = page(layout, "v1-0-batch-1").partition("Schema changes</h2>")[2]
    assert "<td>gate</td><td>addition</td><td>STRING</td><td>observed</td><td>rescue</td>" in own
    assert "Formerly" not in own, "a column that is empty in all lines is left out"
    assert "<td>other</td>" not in own
    assert "<td>other</td>" in page(layout, "index")


def test_a_backfill_is_listed_without_a_page_and_its_verdict_belongs_to_no_batch(layout: Layout) -> None:
    """The window backfill 0 passed, backfill 1 was refused; batch 0 was split, and there is no batch 1."""
    window = "flights/silver/v1/0/window"
    batch = samples.batch(0)
    line = dataclasses.replace(samples.record(0), app_id=window, kind="backfill")
    passed = dataclasses.replace(samples.verdict(0, "passed"), app_id=window)
    refused = dataclasses.replace(samples.verdict(1, "refused"), app_id=window)
    samples.fill(
        layout,
        batch,
        dataclasses.replace(batch, record=line, verdict=passed, at=batch.at.replace(minute=58)),
        dataclasses.replace(batch, record=None, verdict=refused, at=batch.at.replace(minute=59)),
    )
    assert outcomes(layout) == [("backfill 1", "refused"), ("backfill 0", "passed"), ("batch 0", "split")]
    assert judged(layout, "v1-0-batch-0") == ["split"]
    assert PageContent(layout).batch(FLIGHTS, "silver", "v1-0-batch-1") is None
    assert "backfill 1" in page(layout, "index")
    assert [path.name for path in Path(PipelinePlace(layout, "flights").docs).glob("silver/v*.html")] == [
        "v1-0-batch-0.html"
    ]


def test_an_accepted_gap_is_listed_and_changes_no_batch(layout: Layout) -> None:
    samples.fill(layout, samples.batch(1))
    before = page(layout, "v1-0-batch-1")
    gap.accept(
        FlowPlace(layout, "flights", "silver"), "clicks", "an id", {0: (10, 14)}, by="ada", reason="they were tests"
    )
    ledger.record_gaps(FlowPlace(layout, "flights", "silver"))
    assert "5 filtered by gap(clicks 0:10-14)" in page(layout, "index")
    assert page(layout, "v1-0-batch-1") == before


def test_after_a_full_refresh_a_batch_does_not_show_schema_changes_of_the_earlier_batch_with_its_number(
    layout: Layout,
) -> None:
    first = samples.batch(1)
    record = dataclasses.replace(samples.record(1), app_id="flights/silver/v1/1")
    samples.fill(layout, first, dataclasses.replace(first, refresh=1, record=record, verdict=None))
    samples.change(layout, field="gate")
    samples.change(layout, field="terminal", app_id="flights/silver/v1/1")
    for refresh, own, other in ((0, "gate", "terminal"), (1, "terminal", "gate")):
        html = page(layout, f"v1-{refresh}-batch-1")
        assert f"<td>{own}</td>" in html and f"<td>{other}</td>" not in html


def test_the_page_of_a_batch_on_which_its_transform_raises_has_the_class_of_the_exception(layout: Layout) -> None:
    raised = ExpectationResult(
        expectation="transform_error",
        rule="transform_error(CAST_INVALID_INPUT)",
        severity="critical",
        success=False,
        evaluated=300,
        unexpected=31,
    )
    sample = samples.batch(1, outcome="refused")
    assert sample.verdict is not None
    verdict = dataclasses.replace(sample.verdict, suite="", results=(raised,))
    samples.fill(layout, samples.batch(0), dataclasses.replace(sample, verdict=verdict))

    assert outcomes(layout)[0] == ("batch 1", "refused")
    html = page(layout, "v1-0-batch-1")
    assert "Its transform raises: nothing was written" in html and "A critical expectation" not in html
    assert "transform_error(CAST_INVALID_INPUT)" in html and "No suite judged the batch" in html
    assert "transform_error(CAST_INVALID_INPUT)" in page(layout, "index")


REFUSED = {"event": "refused", "decision": "freeze", "schema_change_id": "0a1b2c3d4e5f"}


def test_the_page_of_a_batch_that_a_contract_refused_has_the_command_to_answer(layout: Layout) -> None:
    samples.fill(layout, samples.batch(0))
    samples.change(layout, **REFUSED)
    assert outcomes(layout)[0] == ("batch 1", "refused")
    html = page(layout, "v1-0-batch-1")
    assert "tidegate contract answer flights 0a1b2c3d4e5f evolve" in html
    assert "the contract is checked first" in html
    assert "<td>gate</td>" in html
    assert "schema change 0a1b2c3d4e5f" in page(layout, "index")

    samples.change(layout, **REFUSED | {"event": "answered", "decision": "evolve", "decided_by": "ada"})
    assert "ada answered evolve; the flow's next run applies the answer" in page(layout, "v1-0-batch-1")

    samples.fill(layout, samples.batch(1))
    html = page(layout, "v1-0-batch-1")
    assert "contract answer" not in html
    assert "<td>ada</td>" in html, "the page keeps the author of the answer"
    assert outcomes(layout)[-1] == ("batch 1", "split") or outcomes(layout)[0] == ("batch 1", "split")


def test_the_page_of_a_stateful_flow_has_the_state_after_its_last_batch(layout: Layout) -> None:
    metrics.append(
        PipelinePlace(layout, "orders").ops("progress"), [state_progress(0), state_progress(1, state_rows=1_204)]
    )
    values = PageContent(layout).flow(stateful_orders(), "silver", 1)
    assert [each.state_rows for each in values["kept"]] == [1_204, 7]
    index = export(layout, stateful_orders(), PipelinePlace(layout, "orders").docs)
    assert "<dt>Rows</dt><dd>1,204</dd>" in (index.parent / "silver" / "index.html").read().data.decode()
    assert PageContent(layout).flow(stateful_orders(), "parsed", 1)["kept"] == []


def test_a_backfill_that_a_contract_refused_has_no_page(layout: Layout) -> None:
    samples.change(layout, **REFUSED, app_id="flights/silver/v1/0/window")
    assert outcomes(layout) == [("backfill 1", "refused")]
    assert PageContent(layout).batch(FLIGHTS, "silver", "v1-0-batch-1") is None
