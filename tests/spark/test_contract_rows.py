"""Rows whose values do not fit the schema: the contract and the answers to it decide, and the schema history records it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.job import SILVER, job_of, landed, reading, table, transaction
from tests.spark.orders import Declare, Orders
from tidegate.errors import ContractRefusedError
from tidegate.lake.place import PipelinePlace
from tidegate.ops import evolution
from tidegate.schema.contract import Contract
from tidegate.spark.batch.rows import split_rows
from tidegate.spark.batch.split import Decision
from tidegate.spec import FileSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

AMOUNT = "id INT NOT NULL, at INT, amount DOUBLE"
PLACE = "id INT NOT NULL, at INT, place STRUCT<lat: DOUBLE, floor: INT>, tags ARRAY<INT>"
Declared = Callable[..., "Job"]


@pytest.fixture
def declared(spark: SparkSession, tmp_path: Path) -> Declared:
    """A factory of jobs of the flow `silver`, which reads bronze of JSON files."""

    def make(schema: str, contract: Contract | None = None) -> Job:
        source = FileSource(path="orders", format="json", schema=schema, contract=contract or Contract())
        return reading(job_of(spark, tmp_path, SILVER), source)

    return make


def write_batch(job: Job, *records: dict[str, Any], batch_id: int = 0) -> list[list[str]]:
    """Write a batch of records and return the rules that its refused rows broke."""
    lines = (json.dumps({"at": 1, **record}) for record in records)
    result = split_rows(job, landed(job.spark, *lines), batch_id, Decision(quarantined=False, written=False))
    assert result is not None
    result.write(transaction(job, batch_id))
    return [] if result.refused is None else sorted(row["rules"] for row in result.refused.collect())


def stored(job: Job, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in table(job.target)]


def history(job: Job) -> list[tuple[str, str, str]]:
    return [
        (line.change.kind, line.change.field, line.decision)
        for line in evolution.read(PipelinePlace(job.place.layout, "orders"))
    ]


def test_a_row_is_quarantined_if_a_part_of_a_nested_value_does_not_fit(declared: Declared) -> None:
    job = declared(PLACE)
    good = {"lat": 1.5, "floor": 2}

    refused = write_batch(
        job,
        {"id": 1, "place": good, "tags": [1]},
        {"id": 2, "place": "abc"},
        {"id": 3, "place": {"lat": "x", "floor": 2}},
        {"id": 4, "place": good, "tags": [1, "x"]},
    )

    assert stored(job, "id", "place", "tags") == [(1, good, [1])]
    assert refused == [["wrong_type(place)"], ["wrong_type(place)"], ["wrong_type(tags)"]]
    assert history(job) == [], "other values of the columns fit"
    write_batch(job, {"id": 5, "place": [1.5, 2]}, batch_id=1)
    assert history(job) == [("type_change", "place", "quarantine")]


def test_the_text_of_a_struct_that_does_not_fit_is_in_rescued(declared: Declared) -> None:
    job = declared(PLACE, Contract(columns={"place": "rescue"}))

    refused = write_batch(job, {"id": 1, "place": {"lat": 1.5, "floor": "two"}}, {"id": 2})

    rescued = [(name, place, json.loads(text or "{}")) for name, place, text in stored(job, "id", "place", "_rescued")]
    assert rescued == [(1, None, {"place": '{"lat":1.5,"floor":"two"}'}), (2, None, {})]
    assert refused == []


def test_a_discarded_unknown_field_is_not_stored_and_the_history_names_it(declared: Declared) -> None:
    job = declared(AMOUNT, Contract(mode="discard_value", columns={"gate": "rescue"}))

    refused = write_batch(job, {"id": 1, "amount": 1.5, "gate": "B12", "noise": "x"}, {"id": 2, "amount": "a lot"})

    assert stored(job, "id", "amount", "_rescued") == [(1, 1.5, '{"gate":"B12"}')]
    assert "noise" not in table(job.target)[0]
    assert refused == [["wrong_type(amount)"]]
    assert {(field, decision) for _, field, decision in history(job)} == {
        ("gate", "rescue"),
        ("noise", "discard_value"),
    }


def test_the_history_records_a_type_change_whose_rows_are_quarantined(declared: Declared) -> None:
    job = declared(AMOUNT)

    refused = write_batch(job, {"id": 1, "amount": "much"}, {"id": 2, "amount": "more"})

    assert refused == [["wrong_type(amount)"], ["wrong_type(amount)"]]
    assert [(kind, decision) for kind, _, decision in history(job)] == [("type_change", "quarantine")]


def test_a_schema_change_that_a_person_answers_with_quarantine_refuses_the_rows_that_have_it(
    declared: Declared,
) -> None:
    job = declared(AMOUNT, Contract(mode="freeze"))
    records = {"id": 1, "amount": 1.5}, {"id": 2, "amount": 2.5, "gate": "B12"}
    with pytest.raises(ContractRefusedError) as caught:
        write_batch(job, *records)
    evolution.answer(PipelinePlace(job.place.layout, "orders"), caught.value.schema_change_id, "quarantine", "ada")

    assert write_batch(job, *records) == [["schema_change(gate)"]]
    assert stored(job, "id", "amount") == [(1, 1.5)]


@pytest.mark.nightly
def test_after_a_wider_type_is_accepted_values_that_are_too_large_are_rescued(orders: Orders, declare: Declare) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    declare("Contract(mode='freeze')", schema="id INT NOT NULL, at DATE, amount INT", format="parquet")
    columns = {
        "id": pa.array([1, 2], pa.int32()),
        "at": pa.array([date(2026, 1, 1)] * 2),
        "amount": pa.array([7, 2**40]),
    }
    content = io.BytesIO()
    pq.write_table(pa.table(columns), content)
    orders.deployment.land("a.parquet", content.getvalue(), "orders")
    refused = orders.run().flow("silver").error
    assert refused is not None
    assert refused.attributes["changes"] == ["amount is widened (int -> bigint)"]
    evolution.answer(PipelinePlace(orders.deployment.layout, "orders"), refused.schema_change_id, "evolve", "ada")

    assert orders.run("silver").flow("silver").error is None

    assert [(r["id"], r["amount"], r["_rescued"]) for r in orders.silver()] == [
        (1, 7, None),
        (2, None, '{"amount":"1099511627776"}'),
    ]
    assert (orders.quarantined(), orders.history()[-1].decision) == ([], "rescue")
