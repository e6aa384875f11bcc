"""Run reports and ledger lines: round trips, the balance, and missing reports."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pendulum
import pytest

from tests.with_fields import with_fields
from tidegate import json_codec
from tidegate.errors import GateRefusedError, LakeVersionError
from tidegate.ops.table import line_of
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.report import FORMAT, ErrorReport, FlowReport, LagReport, RunReport, now
from tidegate.reports.verdict import ExpectationResult, Verdict
from tidegate.store import Address

BROKEN = ExpectationResult(
    expectation="expect_column_values_to_be_between",
    rule="between(dep_delay)",
    severity="critical",
    success=False,
    evaluated=2000,
    unexpected=30,
    mostly=0.99,
)
VERDICT = Verdict(
    flow="silver",
    app_id="flights/silver/v1/0",
    batch_id=0,
    suite="flights/silver",
    suite_fingerprint="a" * 16,
    code_fingerprint="",
    outcome="refused",
    results=(BROKEN, replace(BROKEN, severity="warning"), replace(BROKEN, success=True)),
)
ROWS = LedgerLine(
    flow="silver",
    batch_id=0,
    app_id="flights/silver/v1/0",
    kind="upsert",
    read=11,
    written=3,
    quarantined=2,
    late=1,
    filtered={"not_a_flight": 1, "test": 1},
    deduplicated=1,
    superseded=1,
    already_read=1,
    rules={"between(dep_delay)": 2},
)
GROUPS = LedgerLine(
    flow="gold", batch_id=0, app_id="a", kind="recompute", read=99, groups=6, upserted=3, deleted=1, unchanged=2
)
FILES = LedgerLine(
    flow="bronze",
    batch_id=0,
    app_id="a",
    kind="append",
    read=5,
    written=5,
    files_listed=4,
    files_opened=2,
    files_quarantined=1,
    files_already_read=1,
)


@pytest.mark.parametrize("record", [ROWS, GROUPS, FILES, replace(GROUPS, kind="swap")])
def test_a_line_balances_if_everything_has_one_disposition(record: LedgerLine) -> None:
    assert record.imbalance() == 0


ROW_COUNTS = ("read", "written", "quarantined", "late", "deduplicated", "superseded", "already_read")
FILE_COUNTS = ("read", "files_listed", "files_opened", "files_quarantined", "files_already_read")


@pytest.mark.parametrize(
    "record",
    [
        *(with_fields(ROWS, **{name: 99}) for name in ROW_COUNTS),
        replace(ROWS, filtered={"test": 1}),
        *(with_fields(GROUPS, **{name: 99}) for name in ("groups", "upserted", "deleted", "unchanged")),
        *(with_fields(FILES, **{name: 99}) for name in FILE_COUNTS),
    ],
)
def test_every_count_is_part_of_the_balance(record: LedgerLine) -> None:
    assert record.imbalance() > 0


def test_opposite_imbalances_of_rows_and_files_do_not_cancel_out() -> None:
    assert replace(FILES, read=6, files_listed=3).imbalance() == 2


@pytest.mark.parametrize("record", [ROWS, GROUPS, FILES])
def test_a_ledger_line_survives_a_round_trip_and_a_newer_writer(record: LedgerLine) -> None:
    plain = json.loads(json_codec.encode(record))
    assert line_of(LedgerLine, {**plain, "added_later": 1}) == record


def whole_report() -> RunReport:
    flow = FlowReport(flow="silver", target="silver.flights", checkpoint_version=1, state="refused")
    flow.batches, flow.verdicts = [ROWS, replace(ROWS, batch_id=1)], [VERDICT]
    flow.error, flow.lag_before = ErrorReport.of(GateRefusedError(VERDICT)), LagReport(rows=5, bytes=None, behind=1)
    waiting = FlowReport(flow="gold", target="gold.daily_delay", checkpoint_version=1)
    return RunReport(
        dag_id="flights",
        run_key="k",
        attempt="a1",
        started_at=now(),
        flows=[flow, waiting],
        parts={"total": 1.5},
        notes=["x"],
    )


def test_a_report_survives_a_round_trip(tmp_path: Path) -> None:
    report, path = whole_report(), tmp_path / "deep" / "report.json"
    report.write(Address.local(path))
    assert RunReport.read(Address.local(path)) == report
    assert [entry.name for entry in path.parent.iterdir()] == ["report.json"], "the temporary file is removed"


def test_a_missing_report_is_none(tmp_path: Path) -> None:
    assert RunReport.read(Address.local(tmp_path / "report.json")) is None


def test_unknown_fields_are_ignored_and_a_newer_format_is_refused(tmp_path: Path) -> None:
    report, path = whole_report(), tmp_path / "report.json"
    plain = json.loads(json_codec.encode(report))
    path.write_text(json.dumps({**plain, "added": 1, "flows": [{**flow, "added": 1} for flow in plain["flows"]]}))
    assert RunReport.read(Address.local(path)) == report
    path.write_text(json.dumps({**plain, "format": FORMAT + 1}))
    with pytest.raises(LakeVersionError, match="upgrade"):
        RunReport.read(Address.local(path))


@pytest.mark.slow
def test_a_reader_never_sees_an_incomplete_report(tmp_path: Path) -> None:
    report, path = whole_report(), tmp_path / "report.json"
    report.write(Address.local(path))

    def write_often() -> None:
        for _ in range(200):
            report.write(Address.local(path))

    thread = threading.Thread(target=write_often)
    thread.start()
    while thread.is_alive():
        assert RunReport.read(Address.local(path)) == report
    thread.join()


def test_totals_are_over_all_batches() -> None:
    flow = whole_report().flow("silver")
    assert (flow.total("read"), flow.total("quarantined"), flow.total("filtered")) == (22, 4, 4)
    assert flow.rules() == {"between(dep_delay)": 4}


def test_a_swap_counts_only_in_the_totals_of_changed_rows() -> None:
    flow = FlowReport(flow="gold", target="gold.x", checkpoint_version=2)
    flow.batches = [GROUPS, replace(GROUPS, kind="swap", read=7)]
    assert (flow.total("groups"), flow.total("upserted"), flow.total("deleted")) == (6, 6, 2)


def test_the_report_of_a_flow_that_did_not_run_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        whole_report().flow("bronze")


def test_only_failed_critical_expectations_refuse_a_batch() -> None:
    assert VERDICT.refusing() == (BROKEN,)


def test_the_summary_of_a_result_has_counts_and_no_values() -> None:
    assert BROKEN.summary() == "between(dep_delay) (30 of 2,000 rows break it, mostly 0.99)"
    assert replace(BROKEN, mostly=None).summary() == "between(dep_delay) (30 of 2,000 rows break it)"
    assert replace(BROKEN, unexpected=None, evaluated=None).summary() == "between(dep_delay)"


def test_times_are_texts_in_the_order_of_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    start = pendulum.datetime(2026, 1, 5, 12)
    moments = [start.add(seconds=seconds, microseconds=more) for seconds in (0, 1) for more in (0, 1, 500_000)]
    texts = []
    for moment in moments:
        monkeypatch.setattr(pendulum, "now", lambda _zone, moment=moment: moment)
        texts.append(now())

    assert texts == sorted(texts)
    assert [datetime.fromisoformat(text) for text in texts] == moments
