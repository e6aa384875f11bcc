"""Values of statistics in earlier verdicts, on a real Delta table. Needs no JVM."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tidegate.lake.layout import Layout
from tidegate.lake.place import AttemptPlace, FlowPlace, Place
from tidegate.ops import observations
from tidegate.reports.verdict import ExpectationResult, Verdict
from tidegate.requests.request import RunRequest
from tidegate.spark.batch import ledger

if TYPE_CHECKING:
    from tidegate.spark.job import Job

pytestmark = pytest.mark.slow

RULE = "statistic(rows)"
OWN = "flights/silver/v2/0"


def record(layout: Layout, batch_id: int, observed: float | None, outcome: Any = "passed", **other: Any) -> None:
    """Write a line of the verdicts table like a job does."""
    result = ExpectationResult(expectation="statistic", rule=RULE, severity="info", success=True, observed=observed)
    verdict = Verdict(
        flow=other.get("flow", "silver"),
        app_id=other.get("app_id", f"flights/silver/v{other.get('version', 2)}/{other.get('refresh', 0)}"),
        batch_id=batch_id,
        suite="flights/silver",
        suite_fingerprint="s",
        code_fingerprint="c",
        outcome=outcome,
        results=(result,),
    )
    request = RunRequest(dag_id="flights", run_id="run-1", mode=other.get("mode", "incremental"))
    job = SimpleNamespace(
        run=SimpleNamespace(request=request, place=AttemptPlace(layout, "flights", "run-1", "a1")),
        place=Place(layout, "flights", "silver", other.get("version", 2), other.get("refresh", 0)),
    )
    ledger.record_verdict(cast("Job", job), verdict)


def observed(layout: Layout, batch_id: int | None = None, app_id: str = OWN) -> list[float]:
    judged = None if batch_id is None else (app_id, batch_id)
    return [line[RULE] for line in observations.read(FlowPlace(layout, "flights", "silver"), judged) if line]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.local(tmp_path, tmp_path / "landing")


def test_without_verdicts_there_is_no_history(layout: Layout) -> None:
    assert observed(layout) == []


def test_the_newest_batches_are_first_and_earlier_checkpoint_versions_are_included(layout: Layout) -> None:
    record(layout, 0, 10, version=1)
    record(layout, 0, 20)
    record(layout, 1, 30, outcome="split")
    assert observed(layout) == [30, 20, 10]


def test_refused_batches_other_flows_the_present_batch_and_lines_without_a_value_are_left_out(layout: Layout) -> None:
    record(layout, 0, 10)
    record(layout, 1, 999, outcome="refused")
    record(layout, 1, 11)
    record(layout, 2, 999, flow="gold")
    record(layout, 3, None)
    record(layout, 4, 999)
    assert observed(layout, batch_id=4) == [11, 10]


def test_the_last_judgement_of_a_batch_counts(layout: Layout) -> None:
    record(layout, 0, 10)
    record(layout, 0, 12)
    assert observed(layout) == [12]


def test_the_limit_applies_to_verdicts_of_the_flow_only(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observations, "MAX_VERDICTS", 3)
    for batch_id in range(6):
        record(layout, batch_id, batch_id)
    for batch_id in range(4):
        record(layout, batch_id, 999, flow="gold")
        record(layout, batch_id, 999, app_id=f"{OWN}/window", mode="backfill")
    assert observed(layout) == [5, 4, 3]


def test_a_backfill_is_not_confused_with_the_batch_of_its_number(layout: Layout) -> None:
    record(layout, 0, 10)
    record(layout, 1, 11)
    record(layout, 0, 999, app_id=f"{OWN}/window", mode="backfill")
    assert observed(layout) == [11, 10]
    assert observed(layout, 0, f"{OWN}/window") == [11, 10], "backfill 0 is compared with batch 0 as well"
    assert observed(layout, 0) == [11]


def test_batches_of_a_full_refresh_count_for_their_own_checkpoint_only(layout: Layout) -> None:
    record(layout, 0, 10)
    record(layout, 0, 999, refresh=1, mode="full_refresh")
    record(layout, 1, 11, mode="backfill")
    assert observed(layout, 2) == [11, 10]
    assert observed(layout, 1, "flights/silver/v2/1") == [11, 999, 10], "they count for their own checkpoint"
