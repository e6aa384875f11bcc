"""The context of one flow, as a job makes it, for tests that call a part of a micro-batch with small DataFrames.

The pipeline `orders` has one flow of each kind: ``bronze`` lands files, ``clicks`` lands messages, ``silver`` parses bronze
into a keyed table, ``latest`` takes the changes of that keyed table into another, ``gold`` recomputes groups of it. Nothing
of it is loaded by name: a test hands over the transform as a function.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.checkpoints.checkpoint import CheckpointRef
from tidegate.layout import Layout
from tidegate.report import FlowReport
from tidegate.request import RunRequest
from tidegate.spark.context import FlowContext, Reentry, Transform
from tidegate.spark.lake.sinks import Transaction
from tidegate.spec import ChangeFeed, FileSource, Flow, Gate, KafkaSource, Pipeline, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.report import BatchRecord
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
"""When every batch of these tests was planned: 2026-01-01T00:00:00Z."""
_LANDED = datetime(2026, 1, 1, tzinfo=UTC)
_BRONZE_FEED = (
    "_row_id string, line string, _header string, _modified_at timestamp, _path string, _line_number bigint, "
    "_ingested_at timestamp, _change_type string"
)
FEED = "_change_type string, _commit_version bigint, _commit_timestamp timestamp"


def flow_context(
    spark: SparkSession,
    folder: Path,
    flow: Flow,
    *,
    transform: Transform | None = None,
    suite: Sequence[Mapping[str, Any]] = (),
    version: int = 1,
    refresh: int = 0,
    purpose: str = "",
    replay: Reentry | None = None,
    **request: Any,
) -> FlowContext:
    """A flow of the pipeline `orders` in a lake below ``folder``.

    Args:
        spark: The session.
        folder: Of the test; the same folder gives the same lake.
        flow: One of `FLOWS`, or a variant of one, which takes its place by name.
        transform: What stands in its ``spark_jobs`` module.
        suite: The expectations of its gate; without any it has no gate.
        version: Of its checkpoint.
        refresh: Of its checkpoint.
        purpose: Of its transaction id: `tidegate.identity.WINDOW`, or empty for its stream.
        replay: The claim that it works on, in a replay of quarantined entries.
        request: Fields of its `RunRequest`, for example ``dry_run``.
    """
    layout = Layout(folder / "lake", folder / "landing")
    if suite:
        flow = dataclasses.replace(flow, gate=Gate("orders/" + flow.name))
    pipeline = Pipeline(
        name="orders", flows=tuple(flow if declared.name == flow.name else declared for declared in FLOWS)
    )
    upstream = pipeline.upstream_of(flow)
    source = flow.source if upstream is None else upstream.source
    ref = CheckpointRef(dag_id="orders", flow=flow.name, version=version, refresh=refresh, purpose=purpose)
    return FlowContext(
        spark=spark,
        layout=layout,
        kafka="",
        pipeline=pipeline,
        flow=flow,
        ref=ref,
        target=layout.table(flow.target.name),
        landing=None if isinstance(source, ChangeFeed) else source,
        source_keys=() if upstream is None else upstream.target.keys,
        source_table=layout.table(flow.source.table) if isinstance(flow.source, ChangeFeed) else None,
        transform=transform,
        gate=gate_of(layout, flow, suite) if suite else None,
        request=RunRequest(dag_id="orders", run_id="test", requested_by="ada", **request),
        attempt="a1",
        report=FlowReport(flow=flow.name, target=flow.target.name, checkpoint_version=version, refresh=refresh),
        told=lambda: None,
        replay=replay,
    )


def gate_of(layout: Layout, flow: Flow, suite: Sequence[Mapping[str, Any]]) -> SuiteGate:
    """A gate with these expectations, loaded from a file as a job loads it."""
    from tidegate.spark.gate import SuiteGate, Surroundings, load_suite

    path = layout.lake.parent / f"{flow.name}.json"
    path.write_text(json.dumps({"name": f"orders/{flow.name}", "expectations": list(suite)}))
    return SuiteGate(load_suite(path, f"orders/{flow.name}"), "code", Surroundings(layout, "orders", flow.name))


def plan_batch(context: FlowContext, batch_id: int, offset: Mapping[str, Any] | None = None) -> None:
    """Write what Spark writes before it runs a batch: its offsets, and that it was planned at `PLANNED_MS`."""
    path = context.checkpoint / "offsets" / str(batch_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"v1\n{json.dumps({'batchTimestampMs': PLANNED_MS})}\n{json.dumps(dict(offset or {}))}")
    (context.checkpoint / "metadata").write_text('{"id":"7"}')


def changes(
    spark: SparkSession, columns: str, *rows: tuple[Any, ...], version: int = 1, kind: str = "insert"
) -> DataFrame:
    """Rows of the change feed of a keyed table.

    Args:
        spark: The session.
        columns: The table's own columns, as DDL.
        rows: One tuple each; behind the table's own columns may stand the row's change type and version, in place of
            ``kind`` and ``version``.
        version: The commit that they are of.
        kind: ``insert``, ``update_preimage``, ``update_postimage`` or ``delete``.
    """
    width = columns.count(",") + 1
    change = (kind, version)
    fed = [(*row[:width], *row[width:], *change[len(row) - width :], _LANDED) for row in rows]
    return spark.createDataFrame(fed, f"{columns}, {FEED}").coalesce(1)


def landed(spark: SparkSession, *lines: str, kind: str = "insert") -> DataFrame:
    """Lines of one file without a header as bronze keeps them, in its change feed; ``_row_id`` is ``a#<number>``, from 0."""
    rows = [(f"a#{number}", line, None, _LANDED, "/a", number, _LANDED, kind) for number, line in enumerate(lines)]
    return spark.createDataFrame(rows, _BRONZE_FEED).coalesce(1)


def transaction(context: FlowContext, batch_id: int, planned: BatchRecord | None = None) -> Transaction:
    """The ids that a micro-batch gives to its writes."""
    return Transaction(
        app_id=context.app_id, batch_id=batch_id, planned=planned.to_json() if planned is not None else {}
    )


def table(path: Path) -> list[dict[str, Any]]:
    """The rows of a Delta table as delta-rs reads them, in the order of their values; none without a table."""
    from deltalake import DeltaTable

    if not (path / "_delta_log").exists():
        return []
    rows: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted(rows, key=repr)


def stand(path: Path, columns: str, *rows: tuple[Any, ...]) -> None:
    """Put a table there, or its next version: these rows and no others, written by delta-rs in a hundredth of the time.

    Args:
        path: Of the table.
        columns: As DDL: names and the types int, bigint, string and boolean.
        rows: One tuple each.
    """
    import pyarrow as pa
    from deltalake import write_deltalake

    types = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "boolean": pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, kind in (column.split() for column in columns.split(","))])
    plain = [dict(zip(schema.names, row, strict=True)) for row in rows]
    write_deltalake(str(path), pa.Table.from_pylist(plain, schema=schema), mode="overwrite", schema_mode="overwrite")
