"""The final checks of the demo detect errors."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from demo import checks, recompute, recompute_payments
from demo.recompute import Message
from tests.cli.project import append, quarantined
from tests.s3_server import S3Process
from tests.store.buckets import new_store
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.project import registry
from tidegate.reports.ledger_line import LedgerLine
from tidegate.store import Address

pytestmark = pytest.mark.slow

CLICKS = registry.load("clickstream")
VIEW = {"occurred_at": "2026-03-02T08:10:00Z", "user_id": "u1", "page": "/a", "duration_ms": 1500, "kind": "view"}
MESSAGES = [
    Message(0, number, 0, b"k", value)
    for number, value in enumerate(
        (
            json.dumps({**VIEW, "event_id": "e1", "sequence": 1}).encode(),
            b"no",
            b'{"event_id":"e2","sequence":1,"kind":"delete"}',
        )
    )
]


@pytest.fixture
def lake(tmp_path: Path) -> Layout:
    """A lake with exactly the expected tables, written from the recomputation."""
    return filled(Layout.local(tmp_path, tmp_path))


def filled(layout: Layout) -> Layout:
    answer = recompute.clickstream(MESSAGES)
    for path, of in (
        (layout.table("bronze.clicks"), "ids"),
        (layout.table("silver.clicks"), "silver"),
        (layout.table("gold.page_views"), "gold"),
        (layout.table("gold.sessions"), "sessions"),
    ):
        put(path, answer.sql(f"FROM {of}").to_arrow_table())
    entries = answer.sql("SELECT *, 'open' AS state FROM quarantined").to_arrow_table()
    put(FlowPlace(layout, "clickstream", "silver").quarantine, entries)
    return layout


def put(path: Address, rows: Any) -> None:
    path.parent.make_folder()
    write_deltalake(str(path), rows, mode="append", storage_options=dict(path.options))


def failed(layout: Layout) -> list[str]:
    results = checks.exactly_once(layout, CLICKS, recompute.clickstream(MESSAGES))
    return [check.what for check in results if not check.passed]


def test_a_correct_lake_passes_every_check(lake: Layout) -> None:
    assert len(checks.exactly_once(lake, CLICKS, recompute.clickstream(MESSAGES))) == 6
    assert failed(lake) == []


def test_a_correct_lake_in_a_bucket_passes_every_check(s3_server: S3Process) -> None:
    store = Address(new_store(s3_server))
    lake = filled(Layout(store, store / "landing"))
    assert len(checks.exactly_once(lake, CLICKS, recompute.clickstream(MESSAGES))) == 6
    assert failed(lake) == []


def test_a_duplicate_record_is_detected(lake: Layout) -> None:
    put(lake.table("bronze.clicks"), pa.table({"_row_id": ["clickstream/0/0"]}))
    assert failed(lake) == ["clickstream: every record is in bronze once"]


def test_a_wrongly_quarantined_record_is_detected(lake: Layout) -> None:
    quarantine = FlowPlace(lake, "clickstream", "silver").quarantine
    put(quarantine, pa.table({"_row_id": ["clickstream/0/0"] * 2, "state": ["replayed", "withdrawn"]}))
    assert failed(lake) == [], "neither keeps a row out of silver"
    put(quarantine, pa.table({"_row_id": ["clickstream/0/0"], "state": ["open"]}))
    assert failed(lake) == ["clickstream: the same records are in quarantine"]


def test_a_missing_table_is_detected(lake: Layout) -> None:
    empty = dataclasses.replace(lake, root=lake.root / "empty")
    assert "clickstream: gold equals the recomputation" in failed(empty)


def ledger(layout: Layout, *records: LedgerLine) -> None:
    maps = {"filtered": [("rule", 1)], "rules": None, "source_versions": None}
    plain = [vars(record) | maps for record in records]
    schema = pa.schema([(name, pa.map_(pa.string(), pa.int64())) for name in maps])
    names = [name for name in plain[0] if name not in schema.names]
    rows = pa.Table.from_pylist([{name: line[name] for name in names} for line in plain])
    for name in schema.names:
        rows = rows.append_column(schema.field(name), pa.array([line[name] for line in plain], schema.field(name).type))
    put(PipelinePlace(layout, "clickstream").ops("ledger"), rows.drop_columns(["target_version"]))


def test_a_ledger_line_that_does_not_balance_is_detected(tmp_path: Path) -> None:
    layout = Layout.local(tmp_path, tmp_path)
    even = LedgerLine(flow="silver", batch_id=0, app_id="a", kind="upsert", read=3, written=2)
    ledger(layout, even)
    assert checks.balance(layout, CLICKS).passed
    ledger(layout, dataclasses.replace(even, batch_id=1, read=4))
    assert not checks.balance(layout, CLICKS).passed


def test_the_states_of_quarantine_entries_are_compared_with_the_ledger(tmp_path: Path) -> None:
    layout = Layout.local(tmp_path, tmp_path)
    rows = [
        quarantined(f"a#{number}", ["x"], {}, "", state) for number, state in enumerate(("open", "replayed", "waived"))
    ]
    append(FlowPlace(layout, "clickstream", "silver").quarantine, rows)
    batch = LedgerLine(flow="silver", batch_id=0, app_id="a", kind="upsert", read=9, written=6, quarantined=3)
    again = LedgerLine(flow="silver", batch_id=0, app_id="r", kind="replay", read=2, written=1, quarantined=1)
    ledger(layout, batch, again)
    assert not checks.quarantine_states(layout, CLICKS).passed, "the ledger has no line of the waived entry"
    ledger(layout, LedgerLine(flow="silver", batch_id=0, app_id="d", kind="waive", read=1, closed=1))
    check = checks.quarantine_states(layout, CLICKS)
    assert (check.passed, check.details) == (True, "1 open, 1 replayed, 1 waived")
    append(FlowPlace(layout, "clickstream", "silver").quarantine, [quarantined("a#9", ["x"], {}, "", "open")])
    assert not checks.quarantine_states(layout, CLICKS).passed


def test_a_missing_ledger_does_not_balance(tmp_path: Path) -> None:
    assert not checks.balance(Layout.local(tmp_path, tmp_path), CLICKS).passed


PAYMENTS = registry.load("payments")
PAYMENT = {"kind": "payment", "card_id": "c", "occurred_at": "2026-03-02T08:10:00Z", "amount_cents": 1, "country": "GB"}
PAID = [
    Message(0, number, 0, b"c", json.dumps(PAYMENT | {"payment_id": f"p{number}"}).encode(), "payments/id")
    for number in range(6)
]


@pytest.fixture
def paid(tmp_path: Path) -> Layout:
    """A lake with exactly the tables that are expected of payments: the last of six within a moment is suspected."""
    layout = Layout.local(tmp_path, tmp_path)
    ids = [f"payments/id/0/{number}" for number in range(6)]
    read_at = [datetime(2026, 3, 2, 8, 11, tzinfo=UTC)] * 6
    put(layout.table("bronze.payments"), pa.table({"_row_id": ids, "_ingested_at": read_at}))
    answer = recompute_payments.as_tables(
        recompute_payments.payments(PAID, dict(zip(ids, read_at, strict=True))),
    )
    for flow in ("silver", "decisions", "alerts"):
        put(layout.table(PAYMENTS.flow(flow).target.name), answer.sql(f"FROM {flow}").to_arrow_table())
    return layout


def sent(*values: bytes | None) -> list[Message]:
    return [Message(0, number, 0, b'{"card_id":"c","payment_id":"p5"}', value) for number, value in enumerate(values)]


def failed_of_payments(layout: Layout, alerts: list[Message]) -> list[str]:
    return [check.what for check in checks.payments(layout, PAYMENTS, PAID, alerts) if not check.passed]


def test_correct_tables_of_payments_and_sent_alerts_pass_every_check(paid: Layout) -> None:
    results = checks.payments(paid, PAYMENTS, PAID, sent(b"{}"))
    assert [check.passed for check in results] == [True] * 5


def test_a_wrong_decision_is_detected(paid: Layout) -> None:
    table = DeltaTable(str(paid.table("silver.decisions")))
    table.update(updates={"velocity": "7"}, predicate="payment_id = 'p5'")
    assert failed_of_payments(paid, sent(b"{}")) == ["payments: decisions equals the recomputation"]


def test_an_alert_that_was_not_sent_or_was_withdrawn_is_detected(paid: Layout) -> None:
    wrong = ["payments: the sent alerts are those of the table"]
    assert failed_of_payments(paid, []) == failed_of_payments(paid, sent(b"{}", None)) == wrong


def test_payments_without_a_table_fail(tmp_path: Path) -> None:
    assert len(failed_of_payments(Layout.local(tmp_path, tmp_path), [])) == 1
