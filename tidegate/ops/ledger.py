"""The ledger and the verdicts of a pipeline: one line per batch, replay, swap and decision, one line per judgement.

Written with delta-rs and not with Spark: a line costs milliseconds instead of a second, and its commit is a rename
that fails when the name exists, so two drivers of one pipeline cannot both be acknowledged (docs/adr/0002).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pendulum

from tidegate import identity
from tidegate.checkpoints import gap
from tidegate.ops import store
from tidegate.probes import delta
from tidegate.report import BatchRecord, Verdict, now

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow

    from tidegate.layout import Layout

COUNTS = (
    *("read", "written", "quarantined", "deduplicated", "superseded", "already_read"),
    *("groups", "upserted", "deleted", "unchanged"),
    *("files_listed", "files_opened", "files_quarantined", "files_already_read", "closed"),
)
"""The counts of a line, in the order of its columns."""

UNKNOWN: dict[str, Any] = dict.fromkeys(("run_key", "mode", "requested_by", "attempt", "checkpoint_version", "refresh"))
"""Columns that say who asked for a line and which checkpoint it is of; a decision has no run and no checkpoint."""


def record(layout: Layout, pipeline: str, batch: BatchRecord, asked: Mapping[str, Any]) -> None:
    """Add a line once, however often it is recorded.

    Args:
        layout: The lake.
        pipeline: Its name.
        batch: A line that balances.
        asked: Values of the columns in `UNKNOWN`.
    """
    from deltalake import CommitProperties, Transaction

    path = layout.ops(pipeline, "ledger")
    app_id = f"{batch.app_id}/swap" if batch.kind == "swap" else batch.app_id
    held = delta.transaction_version(path, app_id)
    if held is not None and held >= batch.batch_id:
        return
    commit = CommitProperties(app_transactions=[Transaction(app_id=app_id, version=batch.batch_id)])
    _append(path, schema(), {**batch.to_json(), **UNKNOWN, **asked}, commit)


def record_gaps(layout: Layout, pipeline: str, flow: str) -> None:
    """Add a line for each decision to give up messages that has none, in the order of the decisions.

    Args:
        layout: The lake; the caller holds the flow's lease.
        pipeline: Its name.
        flow: The flow's.
    """
    for number, decided in enumerate(gap.accepted(layout, pipeline, flow)):
        lost = {
            f"{identity.GAP}({decided.topic} {partition}:{first}-{last})": last - first + 1
            for partition, (first, last) in (decided.offsets or {}).items()
        }
        line = BatchRecord(
            flow=flow,
            batch_id=number,
            app_id=f"{pipeline}/{flow}/{identity.GAP}",
            kind="gap",
            read=sum(lost.values()),
            filtered=lost,
        )
        record(layout, pipeline, line, {"mode": line.kind, "requested_by": decided.by})


def judged(layout: Layout, pipeline: str, verdict: Verdict, asked: Mapping[str, Any]) -> None:
    """Add a judgement; every attempt at a batch has its own, and none carries the batch's transaction id.

    A refusal recorded under that id would swallow the later pass of the same batch.
    """
    plain = verdict.to_json()
    line = {**plain, "app_id": verdict.app_id or None, "results": json.dumps(plain["results"]), **UNKNOWN, **asked}
    _append(layout.ops(pipeline, "verdicts"), verdict_schema(), line, None)


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
            ("target_version", pa.int64()),
            ("seconds", pa.float64()),
            *_asked(),
        ]
    )


def verdict_schema() -> pyarrow.Schema:
    """The columns of the verdicts."""
    import pyarrow as pa

    texts = ["flow", "app_id", "suite", "suite_fingerprint", "code_fingerprint", "outcome", "results"]
    return pa.schema([*[(name, pa.string()) for name in texts], ("batch_id", pa.int64()), *_asked()])


def _append(path: Path, columns: pyarrow.Schema, line: Mapping[str, Any], commit: Any) -> None:
    row = {**line, "recorded_at": pendulum.parse(now())}
    store.append(path, columns, [{name: row[name] for name in columns.names}], commit)


def _asked() -> list[tuple[str, pyarrow.DataType]]:
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
