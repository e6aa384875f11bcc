"""Every contract mode has the same effect in every format: on rows, unknown fields and the schema history.

Real files are read and real messages decoded; the batch is checked before it is written.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import fastavro
import pyarrow
import pyarrow.parquet
import pytest

from tests.resolved import resolved_flow
from tests.schema_registry import SchemaRegistry, framed
from tidegate.environment.registry import RegistryServer
from tidegate.errors import ContractRefusedError
from tidegate.lake.file_id import FileId
from tidegate.lake.layout import Layout
from tidegate.lake.place import AttemptPlace, PipelinePlace, Place
from tidegate.ops import evolution
from tidegate.reports.report import FlowReport
from tidegate.requests.request import RunRequest
from tidegate.schema.contract import Contract
from tidegate.spark.batch import transform_output
from tidegate.spark.batch.work import Stream
from tidegate.spark.intake import landing
from tidegate.spark.job import Run
from tidegate.spec import ChangeFeed, FileFormat, FileSource, Flow, KafkaSource, Pipeline, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

SCHEMA = "id STRING, amount INT"
RECORDS: list[dict[str, str]] = [
    {"id": "fits", "amount": "5", "gate": "B12", "note": "hello"},
    {"id": "misfit", "amount": "many", "gate": "C1", "note": "again"},
]
"""``amount`` of one record does not fit; ``gate`` gets the mode of the table, ``note`` the mode of the column."""
FIELDS = [{"name": name, "type": "string"} for name in RECORDS[0]]
AVRO = fastavro.parse_schema({"type": "record", "name": "Order", "fields": FIELDS})
AT = datetime(2026, 1, 1, tzinfo=UTC)
FILES: tuple[FileFormat, ...] = ("csv", "json", "parquet", "avro")
MODES: list[tuple[Any, Any]] = [
    ("evolve", "discard_value"),
    ("rescue", "evolve"),
    ("discard_value", "rescue"),
    ("freeze", "rescue"),
    ("rescue", "freeze"),
]
"""Pairs of modes: of the table and of the column ``note``."""
ARRIVALS = (*FILES, "kafka json", "kafka avro")
PER_MERGE = ("rescue", "evolve")
"""The modes that each merge tests for all formats; the others are tested for JSON files, and nightly for all formats."""
CASES = [
    pytest.param(arrival, *modes, marks=() if arrival == "json" or modes == PER_MERGE else pytest.mark.nightly)
    for arrival in ARRIVALS
    for modes in MODES
]


@dataclass(frozen=True)
class Arrived:
    """A batch of bronze rows."""

    bronze: DataFrame
    source: FileSource | KafkaSource
    registry: RegistryServer | None = None


def content(kind: str) -> bytes:
    """A file with the records."""
    if kind == "csv":
        lines = [",".join(RECORDS[0]), *(",".join(record.values()) for record in RECORDS)]
        return "\n".join(lines).encode()
    if kind == "json":
        return "\n".join(json.dumps(record) for record in RECORDS).encode()
    buffer = io.BytesIO()
    if kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(RECORDS), buffer)
    else:
        fastavro.writer(buffer, cast("dict[str, Any]", AVRO), RECORDS)
    return buffer.getvalue()


def message(kind: str, record: dict[str, str], schema_id: int) -> bytes:
    if kind == "json":
        return json.dumps(record).encode()
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, cast("dict[str, Any]", AVRO), record)
    return framed(schema_id, buffer.getvalue())


def of_files(spark: Any, folder: Path, kind: FileFormat) -> DataFrame:
    path = folder / f"orders.{kind}"
    path.write_bytes(content(kind))
    source = FileSource(path="orders", format=kind, schema=SCHEMA)
    modified_ms = path.stat().st_mtime_ns // 1_000_000
    landed = landing.read_files(
        spark, [FileId(str(path), modified_ms)], source, landing.BatchValues(0, modified_ms), []
    )
    assert [file.problem for file in landed.files] == [None]
    return landed.rows(spark, landed.files)


def of_messages(spark: Any, kind: str, schema_id: int) -> DataFrame:
    values = [message(kind, record, schema_id) for record in RECORDS]
    coordinates = "_topic string, _partition int, _offset bigint, _timestamp timestamp, _ingested_at timestamp"
    columns = f"_row_id string, key binary, value binary, {coordinates}"
    records = [(str(number), b"k", value, "orders", 0, number, AT, AT) for number, value in enumerate(values)]
    frame: DataFrame = spark.createDataFrame(records, columns)
    return frame


@pytest.fixture(scope="module")
def arrived(request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arrived]:
    """The records of one format as bronze rows, read once for all modes."""
    on_kafka, kind = request.param.startswith("kafka"), request.param.removeprefix("kafka ")
    with SchemaRegistry() as registry:
        if on_kafka:
            schema_id = registry.register(AVRO)
            source: FileSource | KafkaSource = KafkaSource(topic="orders", schema=SCHEMA, format=kind)
            bronze, server = of_messages(spark, kind, schema_id), registry.settings if kind == "avro" else None
        else:
            source = FileSource(path="orders", format=kind, schema=SCHEMA)
            bronze, server = of_files(spark, tmp_path_factory.mktemp(kind), kind), None
        bronze = bronze.selectExpr("*", "'insert' AS _change_type").persist()
        yield Arrived(bronze, source, server)
        bronze.unpersist()


@dataclass(frozen=True)
class Result:
    """The result of a batch."""

    rows: dict[str, dict[str, Any]]
    refused: ContractRefusedError | None
    history: set[tuple[str, str, str]]
    """Tuples of event, field and decision."""


def apply_modes(arrived: Arrived, table: Any, note: Any, folder: Path, *, dry_run: bool = False) -> Result:
    contract = Contract(mode=table, columns={"note": note})
    source = dataclasses.replace(arrived.source, contract=contract)
    silver = Flow(
        name="silver",
        source=ChangeFeed("bronze.orders"),
        target=Table("silver.orders", keys=("id",), sequence_by=("amount",)),
    )
    bronze = Flow(name="bronze", source=source, target=Table("bronze.orders"))
    layout = Layout.local(folder / "lake", folder / "landing")
    place = Place(layout, "orders", "silver", 1, 0)
    request = RunRequest(dag_id="orders", run_id="run-1", dry_run=dry_run)
    report = FlowReport(flow="silver", target="silver.orders", checkpoint_version=1, refresh=0)
    attempt = AttemptPlace(layout, "orders", request.run_key, "a1")
    job = cast(
        "Job",
        SimpleNamespace(
            work=Stream(),
            flow=silver,
            place=place,
            app_id=place.app_id,
            resolved=resolved_flow(silver, Pipeline(name="orders", flows=(bronze, silver))),
            registry_of=lambda _: arrived.registry,
            transform=None,
            run=Run(request=request, place=attempt, report=report, publish=lambda: None),
        ),
    )
    schema_changes = transform_output.schema_changes_of(job)
    feed = transform_output.changed_rows(job, arrived.bronze)
    output_rows, refused = {}, None
    try:
        output = transform_output.transform_parsed(job, schema_changes.parse(feed))
        measured = transform_output.measure(feed, output, schema_changes)
        output = schema_changes.apply_contract(output, *measured, 0, decided=False)
        schema_changes.record(0, {})
        output_rows = {row["id"]: row.asDict(recursive=True) for row in output.collect()}
    except ContractRefusedError as error:
        refused = error
    history: set[tuple[str, str, str]] = {
        (line.event, line.change.field, line.decision) for line in evolution.read(PipelinePlace(layout, "orders"))
    }
    return Result(output_rows, refused, history)


@pytest.mark.parametrize(("arrived", "table", "note"), CASES, indirect=["arrived"])
def test_each_mode_in_each_format(arrived: Arrived, table: Any, note: Any, tmp_path: Path) -> None:
    modes = {"gate": table, "note": note}

    result = apply_modes(arrived, table, note, tmp_path)

    frozen = {name for name, mode in modes.items() if mode == "freeze"}
    if frozen:
        assert result.rows == {}, "nothing of the batch is written"
        assert result.refused is not None
        assert {change.split()[2] for change in result.refused.changes} == frozen
        assert result.history == {("refused", name, "freeze") for name in frozen}
        return
    assert result.refused is None
    assert result.history == {("observed", name, mode) for name, mode in modes.items()}
    for record in RECORDS:
        row = result.rows[record["id"]]
        assert row["_broken"] == {"fits": [], "misfit": ["wrong_type(amount)"]}[record["id"]]
        assert {name: row[name] for name in modes if name in row} == {
            name: record[name] for name, mode in modes.items() if mode == "evolve"
        }
        rescued = {name: record[name] for name, mode in modes.items() if mode == "rescue"}
        assert json.loads(row["_rescued"] or "{}") == rescued
    assert result.rows["fits"]["amount"] == 5
