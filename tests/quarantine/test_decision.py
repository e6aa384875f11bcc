"""Decisions about quarantine entries change the entries and are recorded in the ledger, once each."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pendulum
import pytest
from deltalake import DeltaTable

from tests.cli.project import append, quarantined
from tidegate.checkpoints import lease
from tidegate.errors import LeaseHeldError, RequestError
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace, Place
from tidegate.ops import ledger
from tidegate.ops.table import line_of
from tidegate.quarantine import claims, decision, lifecycle
from tidegate.quarantine.selection import Selection
from tidegate.reports.ledger_line import LedgerLine

pytestmark = pytest.mark.slow

EVERYTHING = Selection()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Five open rows of three days, two of which break `between(amount)` (one of them another rule too), and a file."""
    layout = Layout.local(tmp_path / "lake", tmp_path / "landing")
    rows = [
        quarantined(f"a#{number}", ["between(amount)"] if number < 2 else ["malformed_line"], {"line": number}, "x")
        | {"quarantined_at": datetime(2026, 1, 5 + number // 2, 10, tzinfo=UTC)}
        for number in range(5)
    ]
    rows[1]["rules"] = ["between(amount)", "not_null(order_id)"]
    file = quarantined("b.gz@1", ["corrupt_compression"], {"path": "b.gz"}, "", level="file")
    append(FlowPlace(layout, "orders", "silver").quarantine, [*rows, file])
    return layout


def waive(layout: Layout, rule: str | None = None, *, by: str = "o'hara", reason: str = "the shop's own test") -> int:
    return decision.waive(
        FlowPlace(layout, "orders", "silver"), Selection.check(rule=rule), by=by, reason=reason
    ).entries


def expire(layout: Layout, selection: Selection) -> int:
    return decision.expire(FlowPlace(layout, "orders", "silver"), selection, by="ada").entries


def entries(layout: Layout) -> dict[str, dict[str, Any]]:
    rows = DeltaTable(str(FlowPlace(layout, "orders", "silver").quarantine)).to_pyarrow_table().to_pylist()
    return {row["_row_id"]: row for row in rows}


def states(layout: Layout) -> dict[str, int]:
    return dict(lifecycle.entry_counts(FlowPlace(layout, "orders", "silver").quarantine).states)


def lines(layout: Layout) -> list[dict[str, Any]]:
    path = PipelinePlace(layout, "orders").ops("ledger")
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda line: line["recorded_at"])


def versions(layout: Layout) -> int:
    return len(list(Path(FlowPlace(layout, "orders", "silver").quarantine / "_delta_log").glob("*.json")))


def test_waiving_stores_person_time_and_reason_in_one_commit(layout: Layout) -> None:
    before = versions(layout)
    assert waive(layout, "between(amount)") == 2
    assert versions(layout) == before + 1
    row = entries(layout)["a#0"]
    assert (row["state"], row["changed_by"], row["reason"]) == ("waived", "o'hara", "the shop's own test")
    assert abs((datetime.now(UTC) - row["changed_at"]).total_seconds()) < 60
    assert states(layout) == {"open": 4, "waived": 2}
    assert waive(layout, "between(amount)") == 0, "a closed entry is unchanged"


def test_the_ledger_line_of_a_decision_balances_and_does_not_contain_the_reason(layout: Layout) -> None:
    waive(layout, "between(amount)")
    waive(layout, "malformed_line", by="ada")
    first, second = lines(layout)
    record = line_of(LedgerLine, first)
    assert (record.kind, record.read, record.closed, record.imbalance()) == ("waive", 2, 2, 0)
    assert not record.is_batch
    assert record.rules == {"between(amount)": 2, "not_null(order_id)": 1}
    assert (first["mode"], first["requested_by"], second["requested_by"]) == ("waive", "o'hara", "ada")
    assert "own test" not in str(first)
    assert [line["batch_id"] for line in (first, second)] == [0, 1]
    short = LedgerLine(flow="silver", batch_id=0, app_id="orders/silver/decision", kind="expire", read=3, closed=2)
    assert short.imbalance() == 1


def test_without_a_matching_entry_nothing_is_written(layout: Layout, tmp_path: Path) -> None:
    before = versions(layout)
    assert waive(layout, "unique(order_id)") == 0
    assert (versions(layout), lines(layout)) == (before, [])
    missing = Layout.local(tmp_path / "empty", tmp_path / "landing")
    assert waive(missing) == 0
    assert not FlowPlace(missing, "orders", "silver").quarantine.exists()


def test_waiving_without_a_reason_is_refused(layout: Layout) -> None:
    with pytest.raises(RequestError, match="reason"):
        waive(layout, reason="  ")
    assert states(layout) == {"open": 6}


def test_claimed_entries_are_not_waived(layout: Layout) -> None:
    path = FlowPlace(layout, "orders", "silver").quarantine
    claims.create(path, Selection.check(rule="malformed_line"), number=3, first=3, limit=2, by="ada")
    assert waive(layout, "malformed_line") == 1
    assert claims.unfinished_claim(path) == claims.Claim(number=3, entries=2)


def test_a_replay_processes_the_claim_of_an_interrupted_one_too_but_a_dry_run_does_not(layout: Layout) -> None:
    claims.create(FlowPlace(layout, "orders", "silver").quarantine, EVERYTHING, number=3, first=3, limit=2, by="ada")
    rule = Selection.check(rule="malformed_line")
    replayable = decision.check_replay(FlowPlace(layout, "orders", "silver"), rule, dry_run=False)
    assert (replayable.entries, replayable.interrupted) == (3, 2)
    assert decision.check_replay(FlowPlace(layout, "orders", "silver"), rule, dry_run=True).interrupted == 0


def test_a_dry_run_counts_and_changes_nothing_also_while_a_run_holds_the_lease(layout: Layout) -> None:
    rule = Selection.check(rule="between(amount)")
    with lease.hold(layout, ("checkpoint:orders/silver",), what="attempt a1 of orders"):
        closed = decision.waive(FlowPlace(layout, "orders", "silver"), rule, by="ada", reason="", dry_run=True)
        with pytest.raises(LeaseHeldError):
            waive(layout, "between(amount)")
    assert (closed.entries, closed.counts.open) == (2, 6)
    assert states(layout) == {"open": 6}


def test_old_entries_expire(layout: Layout) -> None:
    hours = (pendulum.now("UTC") - pendulum.datetime(2026, 1, 6)).in_hours()
    assert expire(layout, Selection.check(older_than=f"{hours}h")) == 3
    row = entries(layout)["a#0"]
    assert (row["state"], row["changed_by"], row["reason"]) == ("expired", "ada", f"older than {hours}h")
    assert expire(layout, Selection.check(older_than="9999d")) == 0
    assert [(line["kind"], line["closed"]) for line in lines(layout)] == [("expire", 3)]
    with pytest.raises(RequestError, match="age"):
        expire(layout, EVERYTHING)


def test_a_new_checkpoint_retires_the_rows_of_the_old_one_and_no_files(layout: Layout) -> None:
    path = FlowPlace(layout, "orders", "silver").quarantine
    claims.create(path, EVERYTHING, number=0, first=0, limit=1, by="ada")
    assert decision.retire(Place(layout, "orders", "silver", 1, 0)) == 0
    assert decision.retire(Place(layout, "orders", "silver", 2, 0)) == 5
    assert entries(layout)["a#0"]["reason"] == "judged again by checkpoint v2/0"
    assert entries(layout)["b.gz@1"]["state"] == "open"
    assert lifecycle.entry_counts(path).claimed == 0, "the claim of an interrupted replay is closed as well"
    assert [(line["kind"], line["closed"], line["requested_by"]) for line in lines(layout)] == [
        ("retire", 5, "tidegate")
    ]
    before = versions(layout)
    assert decision.retire(Place(layout, "orders", "silver", 2, 0)) == 0
    assert versions(layout) == before, "no commit without entries to retire"


def test_a_row_of_a_dropped_batch_that_a_new_checkpoint_refuses_is_open(layout: Layout) -> None:
    path = FlowPlace(layout, "orders", "silver").quarantine
    dropped = quarantined("d#0", ["dropped(rows)"], {"line": 1}, "x", state="waived")
    append(path, [dropped | {"changed_by": "tidegate", "reason": "a statistic dropped its batch"}])
    append(path, [quarantined("d#0", ["between(amount)"], {"line": 1}, "x") | {"_checkpoint_version": 2}])

    assert decision.retire(Place(layout, "orders", "silver", 2, 0)) == 6

    rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    of_row = {row["_checkpoint_version"]: row["state"] for row in rows if row["_row_id"] == "d#0"}
    assert of_row == {1: "expired", 2: "open"}


def test_a_waived_row_that_a_new_checkpoint_refuses_again_stays_waived(layout: Layout) -> None:
    path = FlowPlace(layout, "orders", "silver").quarantine
    waive(layout, "between(amount)", by="ada", reason="it's a test")
    # The new checkpoint refuses one of the two waived rows and one other row; all others pass.
    again = [quarantined(name, ["between(amount)"], {"line": 1}, "x") for name in ("a#0", "a#3")]
    append(path, [entry | {"_checkpoint_version": 2} for entry in again])

    assert decision.retire(Place(layout, "orders", "silver", 2, 0)) == 5

    rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    fresh = {row["_row_id"]: row for row in rows if row["_checkpoint_version"] == 2}
    assert [(fresh[name]["state"], fresh[name]["changed_by"]) for name in ("a#0", "a#3")] == [
        ("waived", "ada"),
        ("open", None),
    ]
    assert fresh["a#0"]["reason"] == "it's a test"
    old = [row for row in rows if row["_checkpoint_version"] == 1 and row["level"] == "row"]
    assert {row["state"] for row in old} == {"expired"}
    assert {row["reason"] for row in old if row["_row_id"] in ("a#0", "a#1")} == {
        "it's a test; judged again by checkpoint v2/0"
    }
    assert [(line["kind"], line["closed"]) for line in lines(layout)] == [
        ("waive", 2),
        ("waive", 1),
        ("retire_waived", 2),
        ("retire", 3),
    ]


def test_the_next_decision_records_one_that_crashed_before_its_ledger_line(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(ledger, "record", crash)
        with pytest.raises(OSError, match="space"):
            waive(layout, "between(amount)", by="ada")
    assert (states(layout), lines(layout)) == ({"open": 4, "waived": 2}, [])

    assert waive(layout, "unique(order_id)") == 0

    (line,) = lines(layout)
    assert (line["kind"], line["closed"], line["requested_by"]) == ("waive", 2, "ada")
    assert waive(layout, "malformed_line") == 3
    assert [(line["batch_id"], line["closed"]) for line in lines(layout)] == [(0, 2), (1, 3)]
