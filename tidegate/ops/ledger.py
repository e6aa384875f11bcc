"""The ledger and the verdicts of a pipeline: one line per batch, backfill, replay, swap and decision; one per verdict.

Written with delta-rs and not with Spark: a line costs milliseconds instead of a second, and its commit is a rename that
fails if the name exists, so of two concurrent drivers of one pipeline only one succeeds (docs/adr/0002).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pendulum

from tidegate import identity, json_codec
from tidegate.checkpoints import overrides
from tidegate.ops import store
from tidegate.place import FlowPlace, PipelinePlace
from tidegate.probes import delta_table
from tidegate.report import BatchRecord, Verdict, now

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow

    from tidegate.place import Place
    from tidegate.store import Address

COUNTS = (
    *("read", "written", "quarantined", "late", "deduplicated", "superseded", "already_read"),
    *("groups", "upserted", "deleted", "unchanged", "results"),
    *("files_listed", "files_opened", "files_quarantined", "files_already_read", "closed"),
)
"""The columns of a line that are counts, in the order of the table."""

NO_RUN: dict[str, Any] = dict.fromkeys(("run_key", "mode", "requested_by", "attempt", "checkpoint_version", "refresh"))
"""The columns about the run and the checkpoint of a line, all None; a decision has neither."""


def record(place: PipelinePlace, batch: BatchRecord, run_columns: Mapping[str, Any]) -> None:
    """Append a line; recording the same line again has no effect.

    Args:
        batch: A line that balances.
        run_columns: Values of the columns in `NO_RUN`.
    """
    app_id = f"{batch.app_id}/swap" if batch.kind == "swap" else batch.app_id
    times = {"watermark": batch.watermark, "planned_at": batch.planned_at}
    line = {**json_codec.to_plain(batch), **times, **NO_RUN, **run_columns}
    _append(place.ops("ledger"), schema(), line, (app_id, batch.batch_id))


def record_gaps(place: FlowPlace) -> None:
    """Append a line for each accepted gap or loss that has none, in the order of the decisions.

    Args:
        place.layout: The lake; the caller holds the flow's lease.
    """
    accepted = (each for each in overrides.history(place) if each.act in ("gap", "loss"))
    for number, decision in enumerate(accepted):
        lost = {
            f"{identity.GAP}({decision.topic} {partition}:{first}-{last})": last - first + 1
            for partition, (first, last) in (decision.offsets or {}).items()
        }
        if decision.lost is not None:
            lost = {f"{identity.GAP}({decision.what})": decision.lost}
        line = BatchRecord(
            flow=place.flow,
            batch_id=number,
            app_id=f"{place.pipeline}/{place.flow}/{identity.GAP}",
            kind="gap",
            read=sum(lost.values()),
            filtered=lost,
        )
        record(place.of_pipeline, line, {"mode": line.kind, "requested_by": decision.by})


def record_verdict(place: PipelinePlace, verdict: Verdict, run_columns: Mapping[str, Any]) -> None:
    """Append a verdict. Every attempt at a batch has its own, so the commit carries no transaction id.

    With the batch's id, a recorded refusal would suppress the verdict of a later attempt at the same batch.
    """
    results = json_codec.encode(verdict.results)
    line = {**json_codec.to_plain(verdict), "results": results, **NO_RUN, **run_columns}
    _append(place.ops("verdicts"), verdict_schema(), line)


def rows_read(place: PipelinePlace, app_id: str) -> int:
    """Rows that the batches of a transaction id have read; no swap is among them, which counts groups."""
    sql = f"SELECT coalesce(sum(read), 0)::BIGINT AS read FROM delta_table WHERE app_id = '{app_id}'"
    return sum(int(line["read"]) for line in store.select(place.ops("ledger"), sql))


def watermark(place: Place, before: int | None = None) -> datetime | None:
    """The highest watermark that batches of a checkpoint recorded, and replays into its table.

    Args:
        before: Only batches before this number.
    """
    path = place.of_pipeline.ops("ledger")
    table = delta_table.find(path)
    if table is None or "watermark" not in (column.name for column in table.schema().fields):
        return None
    earlier = "" if before is None else f" AND batch_id < {before}"
    of_replays = f"checkpoint_version = {place.version} AND refresh = {place.refresh}"
    [line] = store.select(
        path,
        f"SELECT max(watermark) AS watermark FROM delta_table WHERE app_id = '{place.app_id}'{earlier} "
        f"OR app_id = '{place.replays_app_id}' AND {of_replays}",
    )
    recorded: datetime | None = line["watermark"]
    return recorded


def schema() -> pyarrow.Schema:
    """The columns of the ledger."""
    import pyarrow as pa

    return pa.schema(
        [
            ("flow", pa.string()),
            ("kind", pa.string()),
            ("app_id", pa.string()),
            ("batch_id", pa.int64()),
            *[(name, pa.int64()) for name in COUNTS],
            ("filtered", pa.map_(pa.string(), pa.int64())),
            ("rules", pa.map_(pa.string(), pa.int64())),
            ("state_rows", pa.int64()),
            ("state_memory_bytes", pa.int64()),
            ("target_version", pa.int64()),
            ("source_versions", pa.map_(pa.string(), pa.int64())),
            ("suite_fingerprint", pa.string()),
            ("code_fingerprint", pa.string()),
            ("watermark", pa.timestamp("us", tz="UTC")),
            ("planned_at", pa.timestamp("us", tz="UTC")),
            ("undoes", pa.string()),
            ("seconds", pa.float64()),
            *_run_columns(),
        ]
    )


def verdict_schema() -> pyarrow.Schema:
    """The columns of the verdicts."""
    import pyarrow as pa

    texts = ["flow", "app_id", "suite", "suite_fingerprint", "code_fingerprint", "outcome", "results"]
    return pa.schema([*[(name, pa.string()) for name in texts], ("batch_id", pa.int64()), *_run_columns()])


def _append(
    address: Address, columns: pyarrow.Schema, line: Mapping[str, Any], transaction: tuple[str, int] | None = None
) -> None:
    row = {**line, "recorded_at": pendulum.parse(now())}
    store.append(address, columns, [{name: row[name] for name in columns.names}], transaction)


def _run_columns() -> list[tuple[str, pyarrow.DataType]]:
    import pyarrow as pa

    return [
        ("run_key", pa.string()),
        ("mode", pa.string()),
        ("requested_by", pa.string()),
        ("attempt", pa.string()),
        ("checkpoint_version", pa.int32()),
        ("refresh", pa.int32()),
        ("recorded_at", pa.timestamp("us", tz="UTC")),
    ]
