"""What drift is compared with: earlier verdicts, on a real Delta table. Needs no JVM."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tidegate.checkpoint import CheckpointRef
from tidegate.layout import Layout
from tidegate.report import ExpectationResult, Verdict
from tidegate.request import RunRequest
from tidegate.spark import ledger
from tidegate.spark.gate import history

if TYPE_CHECKING:
    from tidegate.spark.context import FlowContext

RULE = "row_count_near_earlier_batches"
REF = CheckpointRef(dag_id="flights", flow="silver", version=2, refresh=0)


def remember(layout: Layout, batch_id: int, observed: float | None, outcome: Any = "passed", **other: Any) -> None:
    """A line of the verdicts table, written as a job writes it."""
    result = ExpectationResult(expectation="x", rule=RULE, severity="info", success=True, observed=observed)
    verdict = Verdict(
        flow=other.get("flow", "silver"),
        batch_id=batch_id,
        suite="flights/silver",
        suite_fingerprint="s",
        code_fingerprint="c",
        outcome=outcome,
        results=(result,),
    )
    context = SimpleNamespace(
        layout=layout,
        pipeline=SimpleNamespace(name="flights"),
        run_key="run-1",
        request=RunRequest(dag_id="flights", run_id="run-1"),
        attempt="a1",
        ref=SimpleNamespace(version=other.get("version", 2), refresh=0),
    )
    ledger.record_verdict(cast("FlowContext", context), verdict)


def observed(layout: Layout, batch_id: int | None = None) -> list[float]:
    return [line[RULE] for line in history.read(layout, REF, batch_id) if line]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, tmp_path / "landing")


def test_without_verdicts_there_is_no_history(layout: Layout) -> None:
    assert observed(layout) == []


def test_the_newest_batches_come_first_and_an_earlier_checkpoint_version_counts(layout: Layout) -> None:
    remember(layout, 0, 10, version=1)
    remember(layout, 0, 20)
    remember(layout, 1, 30, outcome="split")
    assert observed(layout) == [30, 20, 10]


def test_refused_batches_other_flows_the_batch_in_hand_and_lines_without_a_value_are_left_out(layout: Layout) -> None:
    remember(layout, 0, 10)
    remember(layout, 1, 999, outcome="refused")
    remember(layout, 1, 11)
    remember(layout, 2, 999, flow="gold")
    remember(layout, 3, None)
    remember(layout, 4, 999)
    assert observed(layout, batch_id=4) == [11, 10]


def test_of_a_batch_that_was_judged_twice_the_last_judgement_counts(layout: Layout) -> None:
    remember(layout, 0, 10)
    remember(layout, 0, 12)
    assert observed(layout) == [12]


def test_only_the_newest_verdicts_are_read(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "KEPT", 3)
    for batch_id in range(6):
        remember(layout, batch_id, batch_id)
    assert observed(layout) == [5, 4, 3]
