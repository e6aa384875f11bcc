"""Each mode of a contract handles schema changes before a row is written, and records them in the history."""

from __future__ import annotations

import json
import re
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.orders import Declare, Orders, row
from tidegate.checkpoints import progress
from tidegate.formats import records
from tidegate.lake.place import FlowPlace, PipelinePlace, Place
from tidegate.ops import evolution
from tidegate.ops.journal import Journal
from tidegate.quarantine import lifecycle
from tidegate.quarantine.selection import Selection
from tidegate.schema.changes import compare
from tidegate.schema.ddl import Column
from tidegate.spark.intake import contracts
from tidegate.spec import Formats

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm


def test_unknown_fields_are_rescued(orders: Orders, declare: Declare) -> None:
    declare()
    orders.land(row(1, gate="B12", Amount=3), row(2))
    assert [flow.error for flow in orders.run().flows] == [None, None]
    assert [r["_rescued"] for r in orders.silver()] == ['{"gate":"B12","Amount":"3"}', None]
    assert {(line.event, line.change.kind, line.change.field, line.decision) for line in orders.history()} == {
        ("observed", "addition", "gate", "rescue"),
        ("observed", "case_clash", "Amount", "rescue"),
    }


@pytest.mark.nightly
def test_an_evolving_contract_adds_columns_and_keeps_the_checkpoint(orders: Orders, declare: Declare) -> None:
    declare("Contract(mode='evolve', columns={'noise': 'discard_value', 'amount': 'rescue'})")
    orders.land(row(1))
    orders.run()
    orders.land(row(2, gate="B12", noise="x"), {**row(3), "amount": "a lot"})

    report = orders.run()

    assert [flow.error for flow in report.flows] == [None, None]
    assert any(
        "new field gate: its values are in a column of that name" in note for note in report.flow("silver").notes
    )
    orders.land(row(4), row(5, gate="C1", Gate="c1"))
    assert orders.run().flow("silver").error is None
    assert [(r["id"], r["amount"], r["gate"], r["_rescued"]) for r in orders.silver()] == [
        (1, 1.5, None, None),
        (2, 1.5, "B12", None),
        (3, None, None, '{"amount":"a lot"}'),
        (4, 1.5, None, None),
        (5, 1.5, "C1", '{"Gate":"c1"}'),
    ]
    decided = {(line.change.field, line.decision) for line in orders.history()}
    assert decided == {("gate", "evolve"), ("noise", "discard_value"), ("Gate", "rescue")}, (
        "each change is recorded once"
    )


@pytest.mark.nightly
def test_a_frozen_contract_refuses_the_batch_until_it_is_answered(orders: Orders, declare: Declare) -> None:
    declare("Contract(mode='freeze')")
    orders.land(row(1))
    orders.run("bronze", "silver", "gold")
    orders.land(row(2), row(3, gate="B12"), {**row(4), "amount": "x"})

    silver = orders.run("bronze", "silver", "gold").flow("silver")

    assert silver.state == "refused"
    assert silver.error is not None
    assert silver.error.kind == "ContractRefusedError"
    assert "B12" not in repr(silver.error), "names and types, no values"
    (refused, first) = Journal(orders.deployment.layout).lines("orders", flow="silver", limit=9)
    assert (refused.page, refused.outcome, first.page) == ("v1-0-batch-1", "refused", "v1-0-batch-0")
    assert refused.schema_change_id == silver.error.schema_change_id, "the pages show which answer it waits for"
    assert [r["id"] for r in orders.silver()] == [1]
    assert orders.quarantined() == []
    state = progress.read(Place(orders.deployment.layout, "orders", "silver", 1, 0).checkpoint)
    assert (state.last_planned, state.last_committed) == (1, 0), "the batch is not committed"
    plan = orders.plan()
    assert not plan.work
    schema_change_id = silver.error.schema_change_id
    assert any(f"schema change {schema_change_id} needs an answer" in reason for reason in plan.reasons)

    evolution.answer(PipelinePlace(orders.deployment.layout, "orders"), schema_change_id, "evolve", "ada")
    assert orders.plan().work
    assert [flow.state for flow in orders.run("bronze", "silver", "gold").flows] == ["idle", "done", "done"]

    lines = Journal(orders.deployment.layout).lines("orders", flow="silver", limit=9)
    assert [(line.label, line.outcome) for line in lines] == [("batch 1", "split"), ("batch 0", "written")]
    assert [(r["id"], r["gate"]) for r in orders.silver()] == [(1, None), (2, None), (3, "B12")]
    assert orders.quarantined() == [["wrong_type(amount)"]], (
        "one misfit among fitting values is a bad row, not a schema change"
    )
    events = [(line.event, line.change.field, line.decision, line.decided_by) for line in orders.history()]
    assert events == [
        ("refused", "gate", "freeze", ""),
        ("answered", "gate", "evolve", "ada"),
        ("observed", "gate", "evolve", ""),
    ]


@pytest.mark.nightly
def test_the_answer_quarantine_sends_the_rows_with_the_schema_change_to_quarantine(
    orders: Orders, declare: Declare
) -> None:
    declare("Contract(mode='freeze')")
    orders.land(row(1), row(2, gate="B12"))
    error = orders.run().flow("silver").error
    assert error is not None
    evolution.answer(PipelinePlace(orders.deployment.layout, "orders"), error.schema_change_id, "quarantine", "ada")

    assert orders.run().flow("silver").error is None

    assert [r["id"] for r in orders.silver()] == [1]
    assert orders.quarantined() == [["schema_change(gate)"]]
    orders.land({**row(3), "amount": "much"})
    retyped = orders.run().flow("silver").error
    assert retyped is not None, "another schema change needs an answer of its own"
    assert retyped.attributes["changes"] == ["amount has another type: no value is double"]
    evolution.answer(PipelinePlace(orders.deployment.layout, "orders"), retyped.schema_change_id, "evolve", "ada")
    assert orders.run().flow("silver").error is None
    assert [(r["id"], r["amount"], r["_rescued"]) for r in orders.silver()][-1] == (3, None, '{"amount":"much"}')


def test_csv_headers_show_removed_and_renamed_fields(orders: Orders, declare: Declare) -> None:
    declare(format="csv")
    orders.deployment.land("a.csv", "id,at,amount\n1,2026-01-01,2\n", "orders")
    orders.deployment.land("b.csv", "id,at,Amounts\n2,2026-01-01,3\n", "orders")
    orders.deployment.land("c.csv", "id,at\n3,2026-01-01\n", "orders")

    assert [flow.error for flow in orders.run().flows] == [None, None]

    assert [(r["id"], r["amount"], r["_rescued"]) for r in orders.silver()] == [
        (1, 2.0, None),
        (2, None, '{"Amounts":"3"}'),
        (3, None, None),
    ]
    assert sorted((line.change.kind, line.change.field, line.breaks) for line in orders.history()) == [
        ("removal", "amount", ("orders/gold",)),
        ("rename_suspect", "Amounts", ("orders/gold",)),
    ]


def test_an_evolved_column_is_cast_with_the_formats_of_its_source(spark: SparkSession) -> None:
    rows = [({"amount": text}, {"amount": text}) for text in ("1.234,5", "1,x")]
    origin = "_origin struct<unknown: map<string,string>, rescued: map<string,string>>"
    frame = spark.createDataFrame([(row,) for row in rows], origin)

    result = contracts._with_columns(frame, {"amount": "decimal(6,1)"}, Formats(decimal_comma=True)).collect()

    assert [(row["amount"], row["_rescued"]) for row in result] == [
        (Decimal("1234.5"), None),
        (None, '{"amount":"1,x"}'),
    ]


def test_nested_fields_of_an_evolved_column_have_the_names_of_their_file(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    place = {"zipCode": "00100", "geo-point": [{"Lat": 41.9}]}
    pq.write_table(pa.Table.from_pylist([{"place": place}]), path)
    with path.open("rb") as file:
        fields, texts = records.read_records(file, "parquet")
        text = json.loads(next(texts))["place"]
    (change,) = compare([], [Column(*field) for field in fields])
    assert change.after is not None
    origin = "_origin struct<unknown: map<string,string>, rescued: map<string,string>>"
    unknown = {"place": json.dumps(text)}
    frame = spark.createDataFrame([((unknown, unknown),)], origin)

    contracts._with_columns(frame, {"place": change.after}, Formats()).write.format("delta").save(str(tmp_path / "t"))

    (row,) = spark.read.format("delta").load(str(tmp_path / "t")).collect()
    assert row["place"].asDict(recursive=True) == place
    assert row["_rescued"] is None


@pytest.mark.nightly
def test_parquet_and_avro_files_are_compared_by_their_own_schema(orders: Orders, declare: Declare) -> None:
    import io

    import fastavro
    import pyarrow as pa
    import pyarrow.parquet as pq

    declare("Contract(mode='evolve')", format="parquet")
    day = pa.array([date(2026, 1, 1)])
    small = {"id": pa.array([1], pa.int16()), "at": day, "amount": pa.array([1.5], pa.float32())}
    more = {"id": pa.array([2]), "at": day, "amount": pa.array(["2.5"]), "gate": pa.array([7], pa.int32())}
    for name, columns in (("a [1] 50%.parquet", small), ("b.parquet", more)):
        content = io.BytesIO()
        pq.write_table(pa.table(columns), content)
        orders.deployment.land(name, content.getvalue(), "orders")
    orders.deployment.land("c.parquet", b"PAR1 and nothing more", "orders")

    report = orders.run()

    assert [flow.error for flow in report.flows] == [None, None]
    assert report.flow("bronze").rules() == {"corrupt_file": 1}
    assert [(r["id"], r["amount"], r["gate"]) for r in orders.silver()] == [(1, 1.5, None), (2, 2.5, 7)]
    assert [(line.change.kind, line.change.field, line.change.after) for line in orders.history()] == [
        ("widening", "id", "bigint"),
        ("addition", "gate", "int"),
    ], "the evolved column has the writer's type"

    declare("Contract(mode='evolve')", format="avro", version=2)
    (orders.deployment.environment.project.parent / "pipelines" / "orders.py").write_text(
        (orders.deployment.environment.project.parent / "pipelines" / "orders.py")
        .read_text()
        .replace('name="bronze",', 'name="bronze", checkpoint_version=2,')
    )
    fields = [
        {"name": "id", "type": "int"},
        {"name": "at", "type": {"type": "int", "logicalType": "date"}},
        {"name": "amount", "type": ["null", "boolean"]},
    ]
    content = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": "Order", "fields": fields})
    fastavro.writer(content, schema, [{"id": 3, "at": date(2026, 1, 1), "amount": None}])
    orders.deployment.land("d.avro", content.getvalue(), "orders")

    assert [flow.error for flow in orders.run().flows] == [None, None]

    assert [(r["id"], r["gate"]) for r in orders.silver()] == [(1, None), (2, 7), (3, None)]
    (retyped,) = [line for line in orders.history() if line.change.kind == "type_change"]
    assert (retyped.change.before, retyped.change.after, retyped.breaks) == ("double", "boolean", ("orders/gold",))


NAMES = {"user-agent": 1, "Anna Smith": 2, "it's; --": 3, "gate": 4, "user.name": 5}


@pytest.mark.nightly
def test_rules_can_be_selected_by_name_and_show_only_identifiers_and_declared_names_in_clear(
    orders: Orders, declare: Declare
) -> None:
    declare("Contract(mode='freeze', columns={'user-agent': 'freeze'})")
    rules: set[str] = set()
    for number, names in enumerate(({f"name {n}": n for n in range(101)}, NAMES)):
        orders.land(row(number, **names))
        refused = orders.run().flow("silver").error
        assert refused is not None
        assert "Anna" not in repr(refused)
        evolution.answer(
            PipelinePlace(orders.deployment.layout, "orders"), refused.schema_change_id, "quarantine", "ada"
        )
        orders.run()
        rules |= {rule for entry_rules in orders.quarantined() for rule in entry_rules}
    shown = {rule.removeprefix("schema_change(").removesuffix(")") for rule in rules}
    assert {"(more than 100 names)", "user-agent", "gate"} < shown
    assert len([name for name in shown if re.fullmatch("name#[0-9a-f]{8}", name)]) == 3
    for rule in rules:
        quarantine = FlowPlace(orders.deployment.layout, "orders", "silver").quarantine
        assert lifecycle.count_unclaimed(quarantine, Selection.check(rule=rule)) > 0


@pytest.mark.nightly
def test_a_dry_run_of_a_backfill_does_not_change_the_history(orders: Orders, declare: Declare) -> None:
    declare()
    orders.land({**row(1), "amount": "much", "gate": "B12"}, row(2))
    orders.run()
    before = orders.history()
    assert [line.decision for line in before] == ["rescue"]
    declare("Contract(mode='evolve')")

    preview = orders.deployment.replay("silver", "orders", dry_run=True)

    assert (preview.error, preview.total("quarantined")) == (None, 1)
    assert orders.history() == before
    declare("Contract(mode='freeze')")
    preview = orders.deployment.replay("silver", "orders", dry_run=True)
    assert preview.error is not None
    assert preview.error.kind == "ContractRefusedError"
    assert orders.history() == before
    orders.deployment.replay("silver", "orders")
    assert [line.event for line in orders.history()[len(before) :]] == ["refused", "refused"], "a real run is recorded"
