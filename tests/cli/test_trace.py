"""`tidegate trace` on tables with a change feed, written without a JVM. Whole histories: `tests/spark/test_trace.py`."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.cli.project import Project, append, orders, quarantined
from tests.with_fields import with_fields
from tidegate.errors import RequestError, SpecError
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import query
from tidegate.project import resolution
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spec import Pipeline
from tidegate.trace.lineage import Lineage
from tidegate.trace.records import Record, find
from tidegate.trace.step import Step

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _shared_database() -> Iterator[None]:
    with query.shared():
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return with_two_records(tmp_path_factory.mktemp("trace") / "project")


def with_two_records(folder: Path) -> Project:
    """Two records of a file, one with a line break, of which silver has the first and quarantine the second."""
    project = Project.make(folder)
    pipeline = project.declare(orders())
    path = project.land("1.csv", 'order_id,amount\nA-1,5\nA-2,"1\n2"\n')
    rows = [record(path, 2, "A-1,5"), record(path, 3, 'A-2,"1\n2"')]
    write(project, pipeline, "bronze", rows)
    clean = {"order_id": "A-1", "amount": 5, "_deleted": False, "_row_id": rows[0]["_row_id"], "_batch_id": 0}
    write(project, pipeline, "silver", [clean])
    source = {"path": f"file://{path}", "line": 3}
    entry = quarantined(rows[1]["_row_id"], ["wrong_type(amount)"], source, 'A-2,"1\n2"')
    append(FlowPlace(project.layout, "orders", "silver").quarantine, [{**entry, "_app_id": "orders/silver/v1/0"}])
    return project


@pytest.fixture
def lake(made: Project, tmp_path: Path) -> Project:
    """A copy that a test may change; the records are those of the first one's files."""
    project = Project(tmp_path / "project", made.kafka)
    shutil.copytree(made.folder, project.folder)
    return project


def lineage(layout: Layout) -> Lineage:
    return Lineage(layout=layout, pipelines={"orders": resolution.resolve(orders(), Path(layout.root), {})})


def follow(layout: Layout, file: str | None = None, line: int | None = None, offset: str | None = None) -> Step:
    """What became of a record, as ``--file``, ``--line`` and ``--offset`` name it."""
    chosen = Record.of(layout, file, line, offset)
    assert chosen is not None
    (step,) = find(lineage(layout), chosen)
    return step


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
    kind: Literal["append", "upsert"] = "append" if flow == "bronze" else "upsert"
    line = LedgerLine(
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


def test_a_row_is_printed_with_its_batches_and_its_record(made: Project) -> None:
    result = made.run("trace", "silver.orders", "--key", "order_id=A-1")
    assert result.code == 0, result.err
    lines = [line.strip() for line in result.out.splitlines()]
    assert lines[0] == "silver.orders  order_id=A-1  present"
    assert lines[1] == "row      amount=5"
    assert lines[3] == "by batch 0 of orders/silver/v1/0, run run-1 (incremental by ada)"
    assert result.row("bronze.orders", "_line_number=2").startswith("  bronze.orders  _path=file://")
    assert result.row("row ", "line=A-1,5")


def test_a_record_is_printed_with_what_became_of_it(made: Project) -> None:
    result = made.run("trace", "--file", "orders/1.csv", "--line", "3")
    assert result.code == 0, result.err
    assert result.row("silver.orders", "quarantined").strip() == "silver.orders  quarantined"
    assert result.row("quarantined at").endswith("for wrong_type(amount): open")


def test_lists_name_fields_as_records_do_where_a_rename_is_declared(tmp_path: Path) -> None:
    project = with_two_records(tmp_path / "project")
    bronze, *others = orders().flows
    renamed = with_fields(bronze, source=with_fields(bronze.source, fields={"Betrag (€)": "amount"}))
    project.declare(dataclasses.replace(orders(), flows=(renamed, *others)))
    both = 'amount ("Betrag (€)" in the source)'

    traced = project.run("trace", "--file", "orders/1.csv", "--line", "3")
    listed = project.run("quarantine", "list", "orders")
    shown = project.run("quarantine", "show", "orders", "silver")

    assert traced.row("note").endswith(f"note     {both}"), traced.out + traced.err
    assert f"silver: {both}" in listed.out, listed.out + listed.err
    assert shown.row("  fields  ").endswith(both), shown.out + shown.err


def test_a_line_inside_a_record_is_that_record(made: Project) -> None:
    result = made.run("trace", "--file", str(made.folder / "landing/orders/1.csv"), "--line", "4", "--json")
    (step,) = result.json["steps"]
    assert (step["key"]["_line_number"], step["row"]["line"]) == (3, 'A-2,"1\n2"')
    assert [entry["rules"] for entry in step["next"][0]["entries"]] == [["wrong_type(amount)"]]


@pytest.mark.parametrize(
    ("table", "key", "words"),
    [
        ("silver.orders", {"order_id": "A-7"}, "no quarantine entry of flow orders/silver mentions it"),
        ("silver.orders", {"id": "1"}, "has no column 'id'; it has: order_id, amount"),
        ("silver.orders", {"amount": "x"}, "Cannot cast string 'x'"),
        ("silver.nothing", {"id": "1"}, "no flow writes a table 'silver.nothing'"),
        ("gold.orders", {"day": "2026-01-01"}, "`tidegate run orders` creates it"),
    ],
)
def test_a_row_that_cannot_be_followed_is_an_error_that_names_the_cause(
    made: Project, table: str, key: dict[str, str | None], words: str
) -> None:
    with pytest.raises(RequestError) as caught:
        lineage(made.layout).up(table, key)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("file", "line", "offset", "words"),
    [
        ("orders/1.csv", None, None, "--file and --line need each other"),
        ("orders/1.csv", 1, None, "the line is the header, blank, or after the end"),
        ("orders/2.csv", 1, None, "the file does not exist"),
        ("/other/2.csv", 1, None, "no declared flow reads /other/2.csv"),
        (None, None, "clicks", "is not TOPIC/PARTITION/OFFSET"),
        (None, None, "clicks/0/1", "no declared flow reads topic 'clicks'"),
        (None, None, f"clicks/0/{2**63}", "is not TOPIC/PARTITION/OFFSET"),
    ],
)
def test_a_record_that_cannot_be_followed_is_an_error_that_names_the_cause(
    made: Project, file: str | None, line: int | None, offset: str | None, words: str
) -> None:
    with pytest.raises(RequestError) as caught:
        follow(made.layout, file, line, offset)
    assert words in caught.value.message


def test_pipelines_that_cannot_be_loaded_are_named(made: Project) -> None:
    broken = dataclasses.replace(lineage(made.layout), pipelines={"shop": SpecError("wrong")})
    with pytest.raises(RequestError, match=r"\(and those of pipelines/shop.py, which cannot be loaded\)"):
        broken.up("silver.orders", {"order_id": "A-1"})


def test_a_request_without_a_row_and_a_record_ends_with_the_code_for_wrong_usage(made: Project) -> None:
    result = made.run("trace", "silver.orders")
    assert (result.code, "name either a row" in result.err) == (64, True), result.err


def test_a_path_with_dots_is_the_file(made: Project) -> None:
    assert follow(made.layout, f"{made.folder}/pipelines/../landing/orders/1.csv", 2).state == "present"


def test_a_file_that_is_not_read_yet_or_in_quarantine_is_said(lake: Project) -> None:
    lake.land("2.csv", "order_id,amount\nA-3,1\n")
    with pytest.raises(RequestError, match="the file is not read yet"):
        follow(lake.layout, "orders/2.csv", 2)
    whole = quarantined(f"{lake.folder}/landing/orders/2.csv@1", ["not_utf8"], {}, "")
    append(FlowPlace(lake.layout, "orders", "bronze").quarantine, [{**whole, "level": "file"}])
    with pytest.raises(RequestError, match=r"in quarantine as a whole for not_utf8 \(open\)"):
        follow(lake.layout, "orders/2.csv", 2)


def test_a_key_of_a_quarantined_record_is_found_by_its_text(made: Project) -> None:
    (step,) = lineage(made.layout).up("silver.orders", {"order_id": "A-2"})
    assert (step.state, len(step.entries)) == ("quarantined", 1)
    assert step.notes == ("these quarantine entries have the same text somewhere in their record",)


def test_a_record_that_is_not_read_yet_is_told_from_one_that_was_filtered(lake: Project) -> None:
    pipeline = orders()
    write(lake, pipeline, "bronze", [record(lake.folder / "landing/orders/2.csv", 2, "A-1,0")], batch_id=1)
    checkpoint = lake.checkpoint(pipeline, pipeline.flow("silver"))
    checkpoint.plan(0, offset(1)).commit(0)
    (silver,) = follow(lake.layout, "orders/2.csv", 2).next
    assert (silver.state, silver.notes[0]) == ("not there", "orders/silver has not read version 1 yet")
    assert silver.notes[1].startswith("silver.orders has order_id=A-1, as this record, of ")
    assert silver.notes[1].endswith("/1.csv@1000#2")

    checkpoint.plan(1, offset(2)).commit(1)
    of_batch = {"flow": "silver", "app_id": "orders/silver/v1/0", "recorded_at": datetime(2026, 1, 1, tzinfo=UTC)}
    offsets = [(0, 0, 1), (1, 1, 2)]
    lines = [
        {**of_batch, "batch_id": number, "start_offset": json.dumps(offset(a)), "end_offset": json.dumps(offset(b))}
        for number, a, b in offsets
    ]
    append(PipelinePlace(lake.layout, "orders").ops("progress"), lines)
    line = LedgerLine(
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
    (silver,) = follow(lake.layout, "orders/2.csv", 2).next
    assert silver.notes[0] == "batch 1 read it, among 9 rows; it is one of these: 2 filtered by test, 1 superseded"


def offset(version: int) -> dict[str, Any]:
    return {
        "sourceVersion": 1,
        "reservoirId": "t",
        "reservoirVersion": version,
        "index": -1,
        "isStartingVersion": False,
    }


def test_a_record_whose_row_a_later_record_replaced_names_that_record(made: Project, lake: Project) -> None:
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
    # The records are those of the files of the lake that was copied.
    layout = Layout.local(Path(lake.layout.root), Path(made.layout.landing_root))
    (silver,) = follow(layout, "orders/1.csv", 2).next
    assert (silver.state, silver.key) == ("replaced", {"order_id": "A-1"})
    later = silver.changes[-1]
    assert (later.kind, later.row["_row_id"]) == ("update_postimage", "later.csv@1#2")
    assert later.batch is not None
    assert (later.batch.line.run_key, later.batch.code_fingerprint) == (None, "c0de"), "its ledger line is missing"
    DeltaTable(str(lake.layout.table("silver.orders"))).delete("order_id = 'A-1'")
    (silver,) = follow(layout, "orders/1.csv", 2).next
    assert (silver.state, silver.changes[-1].batch) == ("removed", None), "by a commit that is not Tidegate's"
