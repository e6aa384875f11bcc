"""The `Job` of one flow, for tests that call parts of a micro-batch with small DataFrames.

The pipeline `orders` has one flow of each kind: ``bronze`` ingests files, ``clicks`` ingests messages, ``silver`` parses
bronze into a keyed table, ``latest`` copies the changes of that table to another keyed table, ``gold`` recomputes groups
of it. The pipeline is not declared in a module: tests pass the transform as a function.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lakes_in_buckets import lakes_in_buckets
from tests.resolved import resolved_flow
from tidegate import json_codec
from tidegate.environment import Environment
from tidegate.environment.clusters import Cluster
from tidegate.lake.layout import Layout
from tidegate.lake.place import AttemptPlace, Place
from tidegate.reports.report import FlowReport
from tidegate.requests.request import RunRequest
from tidegate.spark.batch.work import Stream
from tidegate.spark.job import Job, Run, Transform, Work, load_kind
from tidegate.spark.lake.writes import Transaction
from tidegate.spark.reprocessing.backfill import Backfill
from tidegate.spec import ChangeFeed, FileSource, Flow, Gate, KafkaSource, Pipeline, Table
from tidegate.store import Address

if TYPE_CHECKING:
    from deltalake import CommitProperties
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.reports.ledger_line import LedgerLine
    from tidegate.spark.gate import SuiteGate

SCHEMA = "id INT, at INT, amount INT"
BRONZE = Flow(
    name="bronze", source=FileSource(path="orders", format="json", schema=SCHEMA), target=Table("bronze.orders")
)
CLICKS = Flow(
    name="clicks", source=KafkaSource(topic="clicks", format="json", schema=SCHEMA), target=Table("bronze.clicks")
)
SILVER = Flow(
    name="silver",
    source=ChangeFeed("bronze.orders"),
    target=Table("silver.orders", keys=("id",), sequence_by=("at",)),
)
LATEST = Flow(
    name="latest",
    source=ChangeFeed("silver.orders"),
    target=Table("silver.latest", keys=("id",), sequence_by=("at",)),
)
GOLD = Flow(
    name="gold",
    source=ChangeFeed("silver.orders"),
    transform="orders:daily",
    target=Table("gold.orders", keys=("day",)),
)
FLOWS = (BRONZE, CLICKS, SILVER, LATEST, GOLD)
PLANNED_MS = 1_767_225_600_000
"""When each batch of these tests was planned: 2026-01-01T00:00:00Z, in milliseconds."""
_LANDED = datetime(2026, 1, 1, tzinfo=UTC)
_BRONZE_FEED = (
    "_row_id string, line string, _header string, _modified_at timestamp, _path string, _line_number bigint, "
    "_ingested_at timestamp, _change_type string"
)
FEED = "_change_type string, _commit_version bigint, _commit_timestamp timestamp"


def job_of(
    spark: SparkSession,
    folder: Path,
    flow: Flow,
    *,
    transform: Transform | None = None,
    suite: Sequence[Mapping[str, Any]] = (),
    version: int = 1,
    refresh: int = 0,
    work: Work | None = None,
    kafka: str = "",
    **request: Any,
) -> Job:
    """A flow of the pipeline `orders` in a lake below ``folder``.

    Args:
        spark: The session.
        folder: A folder of the test; jobs in the same folder share their lake.
        flow: One of `FLOWS`, or a variant of one, which replaces the flow of the same name.
        transform: The transform of the flow.
        suite: The expectations of its gate; without any, the flow has no gate.
        version: The version of its checkpoint.
        refresh: The refresh of its checkpoint.
        work: What is done to the flow; its stream by default.
        kafka: The address of the broker.
        request: Fields of its `RunRequest`, for example ``dry_run``.
    """
    layout = Layout.of(environment(folder)) if lakes_in_buckets() else Layout.local(folder / "lake", folder / "landing")
    if suite:
        flow = dataclasses.replace(flow, gate=Gate("orders/" + flow.name))
    pipeline = Pipeline(
        name="orders", flows=tuple(flow if declared.name == flow.name else declared for declared in FLOWS)
    )
    place = Place(layout, "orders", flow.name, version, refresh)
    requested = RunRequest(dag_id="orders", run_id="test", requested_by="ada", **request)
    return Job(
        run=Run(
            request=requested,
            place=AttemptPlace(layout, "orders", requested.run_key, "a1"),
            report=FlowReport(flow=flow.name, target=flow.target.name, checkpoint_version=version, refresh=refresh),
            publish=lambda: None,
        ),
        resolved=resolved_flow(flow, pipeline),
        kind=load_kind(flow),
        place=place,
        work=Stream() if work is None else work,
        transform=transform,
        gate=gate_of(layout, flow, suite) if suite else None,
        spark=spark,
        clusters=lambda _: Cluster(servers=kafka),
    )


def backfill(number: int = 0, planned_at_ms: int = PLANNED_MS) -> Backfill:
    """A stored backfill, without keys."""
    return Backfill(
        number=number, run_key="r", window={}, source_version=0, planned_at_ms=planned_at_ms, requested_by="ada"
    )


def environment(folder: Path, kafka: str = "") -> Environment:
    """The environment of the jobs in this folder."""
    lakes = lakes_in_buckets()
    variables = {"TIDEGATE_LAKE": str(folder / "lake"), "TIDEGATE_LANDING": str(folder / "landing")}
    variables |= {} if lakes is None else lakes.variables(folder)
    return Environment.read(variables | ({"TIDEGATE_KAFKA": kafka} if kafka else {}))


def reading(job: Job, source: FileSource) -> Job:
    """The job of a flow that parses the records of another source."""
    assert job.resolved.writer is not None
    writer = dataclasses.replace(job.resolved.writer, source=source)
    return dataclasses.replace(job, resolved=dataclasses.replace(job.resolved, writer=writer))


def gate_of(layout: Layout, flow: Flow, suite: Sequence[Mapping[str, Any]]) -> SuiteGate:
    """A gate with these expectations, loaded from a file, as in a job."""
    from tidegate.spark.gate import LakeContext, SuiteGate, load_suite

    path = Path(layout.root).parent / f"{flow.name}.json"
    path.write_text(json.dumps({"name": f"orders/{flow.name}", "expectations": list(suite)}))
    return SuiteGate(load_suite(path, f"orders/{flow.name}"), "code", LakeContext(layout))


def plan_batch(job: Job, batch_id: int, offset: Mapping[str, Any] | None = None) -> None:
    """Write the offset log of a batch as Spark does before it runs the batch, with the time `PLANNED_MS`.

    Args:
        offset: By default, for a flow that reads tables, that nothing of any was read.
    """
    unread = ["-"] * len(job.query_tables) or ["{}"]
    offsets = unread if offset is None else [json.dumps(dict(offset))]
    path = job.place.checkpoint / "offsets" / str(batch_id)
    Path(path.parent).mkdir(parents=True, exist_ok=True)
    Path(path).write_text("\n".join(["v1", json.dumps({"batchTimestampMs": PLANNED_MS}), *offsets]))
    Path(job.place.checkpoint / "metadata").write_text('{"id":"7"}')


def changes(
    spark: SparkSession, columns: str, *rows: tuple[Any, ...], version: int = 1, kind: str = "insert"
) -> DataFrame:
    """Rows of the change feed of a keyed table.

    Args:
        spark: The session.
        columns: The columns of the table, as DDL.
        rows: The values of the columns, optionally followed by the change type and the version of the row, which
            override ``kind`` and ``version``.
        version: The commit version of the changes.
        kind: ``insert``, ``update_preimage``, ``update_postimage`` or ``delete``.
    """
    width = columns.count(",") + 1
    change = (kind, version)
    rows_of_feed = [(*row[:width], *row[width:], *change[len(row) - width :], _LANDED) for row in rows]
    return spark.createDataFrame(rows_of_feed, f"{columns}, {FEED}").coalesce(1)


def landed(spark: SparkSession, *lines: str, kind: str = "insert") -> DataFrame:
    """The change feed of a bronze table with the lines of one file without header; ``_row_id`` is ``a#<number>``, from 0."""
    rows = [(f"a#{number}", line, None, _LANDED, "/a", number, _LANDED, kind) for number, line in enumerate(lines)]
    return spark.createDataFrame(rows, _BRONZE_FEED).coalesce(1)


def written(job: Job, name: str) -> Address:
    """The table of the flow with this name: ``live``, ``quarantine`` or ``late``."""
    address: Address = job.live if name == "live" else getattr(job.place, name)
    return address


def transaction(job: Job, batch_id: int, prepared: LedgerLine | None = None) -> Transaction:
    """The transaction of the writes of a micro-batch."""
    return Transaction(
        app_id=job.app_id, batch_id=batch_id, prepared=json_codec.to_plain(prepared) if prepared is not None else {}
    )


def table(path: Path | Address) -> list[dict[str, Any]]:
    """The sorted rows of a Delta table, read with delta-rs; empty without a table."""
    from deltalake import DeltaTable

    if not (path / "_delta_log").exists():
        return []
    rows: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted(rows, key=repr)


def by_writer(path: Path | Address) -> CommitProperties:
    """The properties of a commit that names the flow of `FLOWS` that writes the table: those of others may put a table in doubt."""
    from deltalake import CommitProperties

    name = f"{path.parent.name}.{path.name}"
    writers = [f"orders/{flow.name}/v1/0" for flow in FLOWS if flow.target.name == name]
    metadata = {"userMetadata": json.dumps({"app_id": writers[0], "batch_id": -1})} if writers else {}
    return CommitProperties(custom_metadata=metadata)


def write_table(path: Path | Address, columns: str, *rows: tuple[Any, ...]) -> None:
    """Create a table, or overwrite its rows in a new version, with delta-rs, which is a hundred times faster than Spark.

    The commit names the flow of `FLOWS` that writes the table, as each of its commits does.

    Args:
        path: The table.
        columns: DDL with the types int, bigint, string, boolean, date, timestamp and timestamp_ntz.
        rows: One tuple per row.
    """
    import pyarrow as pa
    from deltalake import write_deltalake

    types = {
        "int": pa.int32(),
        "bigint": pa.int64(),
        "string": pa.string(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
    }
    types |= {"timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us")}
    schema = pa.schema([(name, types[kind]) for name, kind in (column.split() for column in columns.split(","))])
    records = [dict(zip(schema.names, row, strict=True)) for row in rows]
    write_deltalake(
        str(path),
        pa.Table.from_pylist(records, schema=schema),
        mode="overwrite",
        schema_mode="overwrite",
        commit_properties=by_writer(path),
    )
