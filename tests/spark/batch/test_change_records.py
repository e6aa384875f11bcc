"""Change records make the table that their source has, however they arrive. DuckDB computes the expected rows."""

from __future__ import annotations

import dataclasses
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.crashes import Crash, crash
from tests.slices import of_week
from tests.spark.batch.splits import NEW, Open, counts, refused, stored, write
from tests.spark.job import SILVER, landed, plan_batch, reading, table
from tidegate.lake.place import PipelinePlace
from tidegate.spark.batch import micro_batch
from tidegate.spark.batch.rows import split_rows
from tidegate.spec import ChangeRecords, FileSource, Table, debezium

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from tidegate.spark.batch.split import Split
    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

CUSTOMERS = FileSource(
    path="customers",
    format="json",
    schema="id INT NOT NULL, city STRING NOT NULL, op STRING, lsn BIGINT NOT NULL",
    changes=debezium(lsn="source.lsn"),
)
LATEST = dataclasses.replace(SILVER, target=Table("silver.orders", keys=("id",), sequence_by=("lsn",)))
HISTORY = dataclasses.replace(
    SILVER,
    target=Table("silver.orders", keys=("id",), sequence_by=("lsn",), history="scd2", untracked=("op",)),
)
UNAVAILABLE = "__debezium_unavailable_value"
EXPECTED = """
SELECT id, city, lsn FROM (FROM records QUALIFY row_number() OVER (PARTITION BY id ORDER BY lsn DESC, arrival DESC) = 1)
WHERE NOT deleted ORDER BY id
"""
"""The rows of the table after ``records (arrival, id, city, lsn, deleted)``."""


def change(op: str, key: int | None, city: str | None, lsn: int) -> str:
    """One of Debezium's records; one that deletes has only the key of the row."""
    after = {"id": key, "city": city} if op not in "dt" else None
    before = {"id": key} if op == "d" else None
    return json.dumps({"before": before, "after": after, "op": op, "source": {"lsn": lsn, "table": "customers"}})


def open_flow(latest: Open, flow: Any = LATEST, source: FileSource = CUSTOMERS, **more: Any) -> Job:
    return reading(latest(more.pop("transform", None), flow=flow, **more), source)


def split(job: Job, *lines: str) -> Split:
    result = split_rows(job, landed(job.spark, *lines), 0, NEW)
    assert result is not None
    assert result.prepared.imbalance() == 0
    return result


def present(job: Job, *columns: str) -> list[tuple[Any, ...]]:
    """What readers see."""
    rows = [row for row in table(job.target) if not row["_deleted"]]
    return sorted(tuple(row[name] for name in columns) for row in rows)


def selected(rows: DataFrame) -> DataFrame:
    """A transform that knows nothing of deletes."""
    return rows.select("_row_id", "_origin", "id", "city", "lsn")


@pytest.mark.parametrize("transform", [None, selected])
def test_a_delete_deletes_whether_or_not_a_transform_returns_it(
    latest: Open, transform: Callable[[DataFrame], DataFrame] | None
) -> None:
    job = open_flow(latest, transform=transform)
    lines = [change("r", 1, "Rome", 1), change("c", 2, "Oslo", 2), change("d", 1, None, 3), change("u", 2, "Kiel", 4)]
    assert counts(write(job, split(job, *lines))) == {"read": 4, "written": 2, "deduplicated": 2}
    assert stored(job, "id", "city", "lsn", "_deleted") == [(1, None, 3, True), (2, "Kiel", 4, False)]


def test_what_is_no_change_of_a_whole_row_goes_to_quarantine_by_its_name(latest: Open) -> None:
    job = open_flow(latest)
    lines = {
        "operation(truncate)": change("t", None, None, 1),
        "operation(message)": change("m", 1, "Rome", 1),
        "operation(unknown)": change("x", 1, "Rome", 1),
        "unavailable(city)": change("u", 1, UNAVAILABLE, 1),
        "required(city)": change("u", 1, None, 1),
        "missing(after)": '{"op": "c", "source": {"lsn": 1}}',
        "required(lsn)": '{"op": "d", "before": {"id": 1}}',
        "required(id)": change("c", None, "Rome", 1),
        "malformed_json": "{",
    }
    result = split(job, *lines.values(), '{"schema": null, "payload": null}', change("d", 2, None, 1))
    rules = refused(result)
    assert {rule: rules.get(f"a#{number}", [""])[0] for number, rule in enumerate(lines)} == {
        rule: rule for rule in lines
    }
    assert result.prepared.filtered == {"no_value": 1}
    assert counts(result.prepared) == {"read": 11, "written": 1, "quarantined": 9, "filtered": 1}


def test_records_without_an_envelope_say_by_a_column_what_they_do(latest: Open) -> None:
    flat = dataclasses.replace(
        CUSTOMERS, changes=ChangeRecords(operation="op", writes=("I", "U"), deletes=("D",), refused={"T": "truncate"})
    )
    job = open_flow(latest, source=flat)
    lines = [
        '{"op": "I", "id": 1, "city": "Rome", "lsn": 1}',
        '{"op": "I", "id": 2, "city": "Oslo", "lsn": 1}',
        '{"op": "D", "id": 1, "lsn": 2}',
        '{"op": "T", "lsn": 3}',
        '{"id": 3, "city": "Kiel", "lsn": 1}',
        '{"op": "U", "id": 2, "lsn": 4}',
        '{"op": "D", "lsn": 5}',
    ]
    result = split(job, *lines)
    assert refused(result) == {
        "a#3": ["operation(truncate)"],
        "a#4": ["operation(unknown)"],
        "a#5": ["required(city)"],
        "a#6": ["null_key(id)"],
    }
    write(job, result)
    assert present(job, "id", "city") == [(2, "Oslo")]


@pytest.mark.nightly
def test_a_history_of_change_records_ends_with_the_delete(latest: Open) -> None:
    job = open_flow(latest, flow=HISTORY)
    lines = [
        change("d", 1, None, 30),
        change("c", 1, "Rome", 10),
        change("u", 1, "Oslo", 20),
        change("r", 1, "Oslo", 25),
    ]
    assert counts(write(job, split(job, *lines))) == {"read": 4, "written": 4}
    assert present(job, "id", "city", "valid_from", "valid_to") == [(1, "Oslo", 20, 30), (1, "Rome", 10, 20)]


def history(seed: int, keys: int) -> list[tuple[str, tuple[int, str | None, int, bool] | None]]:
    """Records of a table as they arrive, each with the row that it makes: late, out of order, sent twice, and some of no row."""
    generator = random.Random(seed)
    made = []
    lsn = 0
    for key in range(keys):
        for _ in range(generator.randint(1, 6)):
            lsn += 1
            op = generator.choice("cuuurdd")
            city = None if op == "d" else generator.choice(("Rome", "Oslo", UNAVAILABLE))
            is_row = city != UNAVAILABLE
            record = (change(op, key, city, lsn), (key, city, lsn, op == "d") if is_row else None)
            made += [record] * generator.choice((1, 1, 2))
            if op == "d":
                made.append(('{"schema": null, "payload": null}', None))
            if generator.random() < 0.05:
                made.append((change("t", None, None, lsn), None))
    generator.shuffle(made)
    return made


def expected(rows: Sequence[tuple[int, str | None, int, bool] | None]) -> list[tuple[Any, ...]]:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE records (arrival INT, id INT, city TEXT, lsn BIGINT, deleted BOOLEAN)")
        arrived = [(arrival, *row) for arrival, row in enumerate(rows) if row is not None]
        connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?)", arrived)
        return connection.execute(EXPECTED).fetchall()


def run(job: Job, lines: Sequence[str], cuts: Sequence[int], crashes: Sequence[str]) -> None:
    """Run the lines in batches through all six steps; each batch crashes once before a step, and runs again."""

    feed = landed(job.spark, *lines).persist()
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(lines)], strict=True)):
        plan_batch(job, number)
        batch = feed.where(f"_line_number >= {start} AND _line_number < {end}")
        if number < len(crashes):
            with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
                patch.setattr(micro_batch, crashes[number], crash)
                micro_batch.process(job, batch, number)
        micro_batch.process(job, batch, number)
    feed.unpersist()
    ledger = sorted(table(PipelinePlace(job.place.layout, "orders").ops("ledger")), key=lambda line: line["batch_id"])
    assert [line["read"] for line in ledger] == [b - a for a, b in zip([0, *cuts], [*cuts, len(lines)], strict=True)]


STEPS = ("write_target", "record_batch", "write_quarantine")


@pytest.mark.nightly
@pytest.mark.parametrize("seed", of_week(range(1, 10), 1))
def test_the_table_is_that_of_duckdb_however_the_records_are_cut_and_whatever_step_crashes(
    seed: int, latest: Open
) -> None:
    arrived = history(seed, keys=40)
    generator = random.Random(seed)
    cuts = sorted(generator.sample(range(1, len(arrived)), min(seed, 2)))
    job = open_flow(latest)
    run(job, [line for line, _ in arrived], cuts, STEPS)
    rows = [row for _, row in arrived]
    assert present(job, "id", "city", "lsn") == expected(rows)
    of_no_row = sum(row is None for row in rows) - sum("payload" in line for line, _ in arrived)
    assert len(table(job.place.quarantine)) == of_no_row
