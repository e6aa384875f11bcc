"""What drift is compared with: earlier verdicts, on a real Delta table. Needs no JVM."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from deltalake import DeltaTable

from tidegate.layout import Layout
from tidegate.report import ExpectationResult, Verdict
from tidegate.request import RunRequest
from tidegate.spark.batch import ledger
from tidegate.spark.gate import Surroundings, history

if TYPE_CHECKING:
    from tidegate.spark.context import FlowContext

RULE = "row_count_near_earlier_batches"
OWN = "flights/silver/v2/0"


def remember(layout: Layout, batch_id: int, observed: float | None, outcome: Any = "passed", **other: Any) -> None:
    """A line of the verdicts table, written as a job writes it."""
    results = [
        ExpectationResult(expectation="x", rule=rule, severity="info", success=True, observed=observed)
        for rule in other.get("rules", (RULE,))
    ]
    verdict = Verdict(
        flow=other.get("flow", "silver"),
        app_id=other.get("app_id", f"flights/silver/v{other.get('version', 2)}/{other.get('refresh', 0)}"),
        batch_id=batch_id,
        suite="flights/silver",
        suite_fingerprint="s",
        code_fingerprint="c",
        outcome=outcome,
        results=tuple(results),
    )
    context = SimpleNamespace(
        layout=layout,
        pipeline=SimpleNamespace(name="flights"),
        run_key="run-1",
        request=RunRequest(dag_id="flights", run_id="run-1", mode=other.get("mode", "incremental")),
        attempt="a1",
        ref=SimpleNamespace(version=other.get("version", 2), refresh=other.get("refresh", 0)),
    )
    ledger.record_verdict(cast("FlowContext", context), verdict)


def observed(layout: Layout, batch_id: int | None = None, app_id: str = OWN) -> list[float]:
    judged = None if batch_id is None else (app_id, batch_id)
    return [line[RULE] for line in history.read(layout, "flights", "silver", judged) if line]


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


def test_only_the_newest_verdicts_of_the_flow_are_read_however_busy_its_neighbours_are(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "KEPT", 3)
    for batch_id in range(6):
        remember(layout, batch_id, batch_id)
    for batch_id in range(4):
        remember(layout, batch_id, 999, flow="gold")
        remember(layout, batch_id, 999, app_id=f"{OWN}/window", mode="replay")
    assert observed(layout) == [5, 4, 3]


def test_a_replay_is_no_batch_and_hides_none_of_its_number(layout: Layout) -> None:
    remember(layout, 0, 10)
    remember(layout, 1, 11)
    remember(layout, 0, 999, app_id=f"{OWN}/window", mode="replay")
    assert observed(layout) == [11, 10]
    assert observed(layout, 0, f"{OWN}/window") == [11, 10], "replay 0 is judged by batch 0 too"
    assert observed(layout, 0) == [11]


def test_batches_that_filled_another_checkpoint_anew_are_like_no_increment(layout: Layout) -> None:
    remember(layout, 0, 10)
    remember(layout, 0, 999, refresh=1, mode="full_refresh")
    remember(layout, 1, 11, mode="replay")
    assert observed(layout, 2) == [11, 10]
    assert observed(layout, 1, "flights/silver/v2/1") == [11, 999, 10], "of its own checkpoint they count"


def test_a_table_of_an_older_version_tells_of_batches_alone(layout: Layout) -> None:
    from deltalake import write_deltalake

    remember(layout, 0, 10)
    remember(layout, 1, 11)
    path = str(layout.ops("flights", "verdicts"))
    table = DeltaTable(path).to_pyarrow_table().drop_columns(["app_id", "mode"])
    write_deltalake(path, table, mode="overwrite", schema_mode="overwrite")
    assert observed(layout, 1) == [10]
    remember(layout, 2, 12)
    assert observed(layout) == [12, 11, 10]


def test_two_rules_on_one_measure_have_as_long_a_history_as_one(layout: Layout) -> None:
    """A warning at a fifth and a refusal at a half observe the same number, each batch once."""
    for batch_id in range(3):
        remember(layout, batch_id, 10 + batch_id, rules=(f"{RULE}#2", RULE))
    surroundings = Surroundings(layout, "flights", "silver")
    surroundings.judging(OWN, 3)
    assert list(surroundings.earlier(RULE, 10)) == [12, 11, 10]
