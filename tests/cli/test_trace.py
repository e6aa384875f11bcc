"""`tidegate trace` on tables with a change feed, written without a JVM. Whole histories: `tests/spark/test_trace.py`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.cli.project import Project, append, orders, quarantined
from tidegate.report import BatchRecord
from tidegate.spec import ChangeFeed, Flow, Pipeline, Table, TimeWindows

UNKNOWN = [
    (["silver.orders", "--key", "order_id=A-7"], "no quarantine entry of flow orders/silver mentions it"),
    (["silver.orders", "--key", "id=1"], "has no column 'id'; it has: order_id, amount"),
    (["silver.orders", "--key", "amount=x"], "Cannot cast string 'x'"),
    (["silver.nothing", "--key", "id=1"], "no flow writes a table 'silver.nothing'"),
    (["gold.orders", "--key", "day=2026-01-01"], "`tidegate run orders` creates it"),
    (["silver.orders"], "name either a row"),
    (["--file", "orders/1.csv"], "--file and --line need each other"),
    (["--file", "orders/1.csv", "--line", "1"], "the line is the header, blank, or after the end"),
    (["--file", "orders/2.csv", "--line", "1"], "the file does not exist"),
    (["--file", "/other/2.csv", "--line", "1"], "no declared flow reads /other/2.csv"),
    (["--offset", "clicks"], "is not TOPIC/PARTITION/OFFSET"),
    (["--offset", "clicks/0/1"], "no declared flow reads topic 'clicks'"),
]


@pytest.fixture
def lake(project: Project) -> Project:
    """Two records of a file, one with a line break, of which silver has the first and quarantine the second."""
    pipeline = project.declare(orders())
    path = project.land("1.csv", 'order_id,amount\nA-1,5\nA-2,"1\n2"\n')
    rows = [record(path, 2, "A-1,5"), record(path, 3, 'A-2,"1\n2"')]
    write(project, pipeline, "bronze", rows)
    clean = {"order_id": "A-1", "amount": 5, "_deleted": False, "_row_id": rows[0]["_row_id"], "_batch_id": 0}
    write(project, pipeline, "silver", [clean])
    source = {"path": f"file://{path}", "line": 3}
    entry = quarantined(rows[1]["_row_id"], ["wrong_type(amount)"], source, 'A-2,"1\n2"')
    append(project.layout.quarantine("orders", "silver"), [{**entry, "_app_id": "orders/silver/v1/0"}])
    return project


def record(path: Path, line: int, text: str) -> dict[str, Any]:
    return {
        "_row_id": f"{path}@1000#{line}",
        "line": text,
        "_header": "order_id,amount",
        "_path": f"file://{path}",
        "_modified_at": datetime(2026, 1, 1, tzinfo=UTC),
        "_line_number": line,
        "_ingested_at": datetime(2026, 1, 1, tzinfo=UTC),
        "_batch_id": 0,
    }


def write(project: Project, pipeline: Pipeline, flow: str, rows: list[dict[str, Any]], batch_id: int = 0) -> None:
    """Commit rows as a batch of a flow, with its ledger line."""
    declared = pipeline.flow(flow)
    kind = "append" if flow == "bronze" else "upsert"
    line = BatchRecord(
        flow=flow, batch_id=batch_id, app_id=f"orders/{flow}/v1/0", kind=kind, read=len(rows), written=len(rows)
    )
    metadata = {"app_id": line.app_id, "batch_id": batch_id, "prepared": {"kind": kind}}
    write_deltalake(
        str(project.layout.table(declared.target.name)),
        pyarrow.Table.from_pylist(rows),
        mode="append",
        configuration={"delta.enableChangeDataFeed": "true"},
        commit_properties=CommitProperties(custom_metadata={"userMetadata": json.dumps(metadata)}),
    )
    project.record(pipeline, line, requested_by="ada")


def test_a_row_is_printed_with_its_batches_and_its_record(lake: Project) -> None:
    result = lake.run("trace", "silver.orders", "--key", "order_id=A-1")
    assert result.code == 0, result.err
    lines = [line.strip() for line in result.out.splitlines()]
    assert lines[0] == "silver.orders  order_id=A-1  present"
    assert lines[1] == "row      amount=5"
    assert lines[3] == "by batch 0 of orders/silver/v1/0, run run-1 (incremental by ada)"
    assert result.row("bronze.orders", "_line_number=2").startswith("  bronze.orders  _path=file://")
    assert result.row("row ", "line=A-1,5")


def test_a_record_is_printed_with_what_became_of_it(lake: Project) -> None:
    result = lake.run("trace", "--file", "orders/1.csv", "--line", "3")
    assert result.code == 0, result.err
    assert result.row("silver.orders", "quarantined").strip() == "silver.orders  quarantined"
    assert result.row("quarantined at").endswith("for wrong_type(amount): open")


def test_a_line_inside_a_record_is_that_record(lake: Project) -> None:
    result = lake.run("trace", "--file", str(lake.folder / "landing/orders/1.csv"), "--line", "4", "--json")
    (step,) = result.json["steps"]
    assert (step["key"]["_line_number"], step["row"]["line"]) == (3, 'A-2,"1\n2"')
    assert [entry["rules"] for entry in step["next"][0]["entries"]] == [["wrong_type(amount)"]]


def test_what_cannot_be_followed_is_an_error_that_names_the_cause(lake: Project) -> None:
    for arguments, words in UNKNOWN:
        result = lake.run("trace", *arguments)
        assert (result.code, words in result.err) == (64, True), (arguments, result.err)


def test_a_file_that_is_not_read_yet_or_in_quarantine_is_said(lake: Project) -> None:
    lake.land("2.csv", "order_id,amount\nA-3,1\n")
    assert "the file is not read yet" in lake.run("trace", "--file", "orders/2.csv", "--line", "2").err
    whole = quarantined(f"{lake.folder}/landing/orders/2.csv@1", ["not_utf8"], {}, "")
    append(lake.layout.quarantine("orders", "bronze"), [{**whole, "level": "file"}])
    result = lake.run("trace", "--file", "orders/2.csv", "--line", "2")
    assert "in quarantine as a whole for not_utf8 (open)" in result.err


def test_a_key_of_a_quarantined_record_is_found_by_its_text(lake: Project) -> None:
    result = lake.run("trace", "silver.orders", "--key", "order_id=A-2")
    assert result.code == 0, result.err
    assert result.out.startswith("silver.orders  order_id=A-2  quarantined\n")
    assert "these quarantine entries have the same text somewhere in their record" in result.out


def test_a_record_that_makes_no_version_of_a_history_is_unchanged(lake: Project) -> None:
    row = {"order_id": "A-3", "_deleted": True, "_change": "unchanged", "_row_id": "a#1", "_batch_id": 0}
    path = lake.layout.table("silver.orders")
    write_deltalake(str(path), pyarrow.Table.from_pylist([row]), mode="append", schema_mode="merge")
    assert lake.run("trace", "silver.orders", "--key", "order_id=A-3").row("A-3", "unchanged")


def test_a_record_that_is_not_read_yet_is_told_from_one_that_was_filtered(lake: Project) -> None:
    pipeline = orders()
    write(lake, pipeline, "bronze", [record(lake.folder / "landing/orders/2.csv", 2, "A-1,0")], batch_id=1)
    checkpoint = lake.checkpoint(pipeline, pipeline.flow("silver"))
    checkpoint.plan(0, offset(1)).commit(0)
    arguments = ("trace", "--file", "orders/2.csv", "--line", "2")
    assert (
        lake.run(*arguments).row("note ", "has not read").strip() == "note     orders/silver has not read version 1 yet"
    )

    checkpoint.plan(1, offset(2)).commit(1)
    of_batch = {"flow": "silver", "app_id": "orders/silver/v1/0", "recorded_at": datetime(2026, 1, 1, tzinfo=UTC)}
    offsets = [(0, 0, 1), (1, 1, 2)]
    lines = [
        {**of_batch, "batch_id": number, "start_offset": json.dumps(offset(a)), "end_offset": json.dumps(offset(b))}
        for number, a, b in offsets
    ]
    append(lake.layout.ops("orders", "progress"), lines)
    line = BatchRecord(
        flow="silver",
        batch_id=1,
        app_id="orders/silver/v1/0",
        kind="upsert",
        read=9,
        written=6,
        superseded=1,
        filtered={"test": 2},
    )
    lake.record(pipeline, line)
    result = lake.run(*arguments)
    assert result.row("silver.orders has order_id=A-1, as this record").endswith("/1.csv@1000#2")
    note = result.row("note ", "batch 1").strip()
    assert note == "note     batch 1 read it, among 9 rows; it is one of these: 2 filtered by test, 1 superseded"


def offset(version: int) -> dict[str, Any]:
    return {
        "sourceVersion": 1,
        "reservoirId": "t",
        "reservoirVersion": version,
        "index": -1,
        "isStartingVersion": False,
    }


def test_a_record_whose_row_a_later_record_replaced_names_that_record(lake: Project) -> None:
    metadata = {
        "app_id": "orders/silver/v1/0",
        "batch_id": 1,
        "prepared": {"kind": "upsert", "code_fingerprint": "c0de"},
    }
    DeltaTable(str(lake.layout.table("silver.orders"))).update(
        predicate="order_id = 'A-1'",
        new_values={"amount": 7, "_row_id": "later.csv@1#2", "_batch_id": 1},
        commit_properties=CommitProperties(custom_metadata={"userMetadata": json.dumps(metadata)}),
    )
    result = lake.run("trace", "--file", "orders/1.csv", "--line", "2")
    assert result.row("silver.orders").strip() == "silver.orders  order_id=A-1  replaced"
    assert result.row("updated ").endswith("of later.csv@1#2")
    by_batch = "by batch 1 of orders/silver/v1/0, without a line in the ledger, transform c0de"
    assert result.row("transform").strip() == by_batch
    DeltaTable(str(lake.layout.table("silver.orders"))).delete("order_id = 'A-1'")
    result = lake.run("trace", "--file", "orders/1.csv", "--line", "2")
    assert result.row("silver.orders").strip() == "silver.orders  order_id=A-1  removed"
    assert result.row("by a commit that is not Tidegate's")


def at(hour: int, minute: int) -> datetime:
    return datetime(2026, 1, 1, hour, minute, tzinfo=UTC)


def visiting() -> Pipeline:
    """Sessions, windows and a join of orders."""
    declared = orders()
    sliding = TimeWindows(time="at", length="1 hour", every="30 minutes")
    targets = {
        "sessions": Table("gold.sessions", keys=("customer", "started_at"), replace_by=("customer",)),
        "hours": Table("gold.hours", keys=("customer", "window_start"), windows=sliding),
    }
    silver = ChangeFeed("silver.orders")
    gold = [Flow(name=name, source=silver, transform="orders:totals", target=each) for name, each in targets.items()]
    rates = Table("silver.rates", keys=("currency",), sequence_by=("currency",))
    gold += [
        Flow(name="rates", source=ChangeFeed("bronze.orders"), transform="orders:rates", target=rates),
        Flow(
            name="worth",
            sources=(silver, ChangeFeed("silver.rates", on={"paid_in": "currency"})),
            transform="orders:totals",
            target=Table("gold.worth", keys=("customer",)),
        ),
    ]
    return Pipeline(name="orders", flows=(*declared.flows[:2], *gold))


@pytest.fixture
def visits(lake: Project) -> Project:
    """Two orders of Ada, in a session and in overlapping windows, with the rates of their day."""
    pipeline = lake.declare(visiting())
    shared = {"_deleted": False, "customer": "ada", "paid_in": "EUR"}
    first = {"order_id": "A-8", "amount": 1, "at": at(10, 10), "_row_id": "a#1", "_batch_id": 1} | shared
    second = {"order_id": "A-9", "amount": 1, "at": at(10, 40), "_row_id": "a#2", "_batch_id": 1} | shared
    path = lake.layout.table("silver.orders")
    write_deltalake(str(path), pyarrow.Table.from_pylist([first, second]), mode="append", schema_mode="merge")
    write(lake, pipeline, "sessions", [{"customer": "ada", "started_at": at(10, 10), "orders": 2}])
    windows = ((at(9, 30), 1), (at(10, 0), 2), (at(10, 30), 1), (None, 1))
    write(
        lake,
        pipeline,
        "hours",
        [{"customer": "ada", "window_start": start, "orders": number} for start, number in windows],
    )
    row = {"currency": "EUR", "rate": 1.5, "_deleted": False, "_row_id": "rates.csv@1#2", "_batch_id": 0}
    write(lake, pipeline, "rates", [row])
    write(lake, pipeline, "worth", [{"customer": "ada", "worth": 3.0}])
    return lake


def test_a_session_and_a_window_are_followed_to_their_rows(visits: Project) -> None:
    def made_of(*arguments: str) -> list[str]:
        result = visits.run("trace", *arguments, "--json")
        assert result.code == 0, result.err
        (step,) = result.json["steps"]
        return [each["key"]["order_id"] for each in step["next"]]

    session = ("gold.sessions", "--key", "customer=ada", "--key", "started_at=2026-01-01T10:10:00Z")
    assert made_of(*session) == ["A-8", "A-9"]
    assert visits.run("trace", *session).row("note", "all rows of one customer are computed together")
    hours = ("gold.hours", "--key", "customer=ada", "--key")
    assert made_of(*hours, "window_start=2026-01-01T09:30:00Z") == ["A-8"]
    assert made_of(*hours, "window_start=2026-01-01T10:30:00Z") == ["A-9"]
    assert made_of(*hours, "window_start") == [], "no order is without time"


def test_a_group_is_followed_to_the_rows_that_are_joined(visits: Project) -> None:
    result = visits.run("trace", "gold.worth", "--key", "customer=ada")
    assert result.code == 0, result.err
    assert [line.strip().split("  ")[0] for line in result.out.splitlines() if "present" in line] == [
        *("gold.worth", "silver.orders", "silver.orders", "silver.rates"),
    ]
    assert result.row("row ", "rate=1.5")


def test_a_record_is_followed_to_its_sessions_windows_and_joins(visits: Project) -> None:
    """That of the rate belongs to the groups of the orders that were paid in it."""
    pipeline = orders()
    for line, row_id in ((8, "a#1"), (9, "rates.csv@1#2")):
        append(
            visits.layout.table(pipeline.flow("bronze").target.name),
            [{**record(visits.folder / "landing/orders/1.csv", line, "x"), "_row_id": row_id}],
        )
    result = visits.run("trace", "--file", "orders/1.csv", "--line", "8")
    assert result.code == 0, result.err
    assert result.row("gold.sessions", "present") and result.row("gold.worth", "present")
    assert "it made 2 rows of gold.hours" in result.out
    rate = visits.run("trace", "--file", "orders/1.csv", "--line", "9")
    assert rate.row("2 rows of silver.orders belong to it, this is of the first")
    assert rate.row("gold.worth", "customer=ada", "present")


def test_the_batch_that_read_a_row_of_a_group_that_is_gone_is_named(visits: Project) -> None:
    """Positions of a flow with several sources are lists."""
    pipeline = visiting()
    DeltaTable(str(visits.layout.table("gold.worth"))).delete()
    append(
        visits.layout.table("bronze.orders"),
        [{**record(visits.folder / "landing/orders/1.csv", 8, "x"), "_row_id": "a#1"}],
    )
    visits.checkpoint(pipeline, pipeline.flow("worth")).plan(0, offset(9)).commit(0)
    read = {"flow": "worth", "app_id": "orders/worth/v1/0", "recorded_at": datetime(2026, 1, 1, tzinfo=UTC)}
    ends = json.dumps([offset(9), None])
    append(visits.layout.ops("orders", "progress"), [{**read, "batch_id": 0, "start_offset": None, "end_offset": ends}])
    result = visits.run("trace", "--file", "orders/1.csv", "--line", "8")
    assert result.code == 0, result.err
    assert result.row("batch 0 read it; the transform made no row of its group")
