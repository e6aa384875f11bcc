"""The ledger and the verdicts of a pipeline: one line per batch, one line per judgement.

Written with delta-rs and not with Spark: a line costs milliseconds instead of a second, and its commit is a rename
that fails when the name exists, so two drivers of one pipeline cannot both be acknowledged (docs/adr/0002).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate import ops
from tidegate.report import BatchRecord, Verdict, now

if TYPE_CHECKING:
    import pyarrow

    from tidegate.spark.context import FlowContext


def record_batch(context: FlowContext, record: BatchRecord) -> None:
    """Add a batch's line once, however often it is recorded.

    Args:
        context: The flow.
        record: A line that balances.
    """
    from deltalake import CommitProperties, DeltaTable, Transaction

    path = context.layout.ops(context.pipeline.name, "ledger")
    app_id = f"{record.app_id}/swap" if record.kind == "swap" else record.app_id
    if DeltaTable.is_deltatable(str(path)):
        held = DeltaTable(str(path)).transaction_version(app_id)
        if held is not None and held >= record.batch_id:
            return
    line = {**record.to_json(), **_attempt(context)}
    commit = CommitProperties(app_transactions=[Transaction(app_id=app_id, version=record.batch_id)])
    _append(path, _ledger_schema(), line, commit)


def record_verdict(context: FlowContext, verdict: Verdict) -> None:
    """Add a judgement; every attempt at a batch has its own, and none carries the batch's transaction id.

    A refusal recorded under that id would swallow the later pass of the same batch.
    """
    plain = verdict.to_json()
    line = {**plain, "results": json.dumps(plain["results"]), **_attempt(context)}
    _append(context.layout.ops(context.pipeline.name, "verdicts"), _verdict_schema(), line, None)


def _attempt(context: FlowContext) -> dict[str, Any]:
    return {
        "run_key": context.run_key,
        "mode": context.request.mode,
        "requested_by": context.request.requested_by or None,
        "attempt": context.attempt,
        "checkpoint_version": context.ref.version,
        "refresh": context.ref.refresh,
        "recorded_at": now(),
    }


def _append(path: Path, schema: pyarrow.Schema, line: Mapping[str, Any], commit: Any) -> None:
    import pendulum

    moment = pendulum.parse(line["recorded_at"])
    row = {name: line[name] for name in schema.names} | {"recorded_at": moment}
    ops.append(path, schema, [row], commit)


def _ledger_schema() -> pyarrow.Schema:
    import pyarrow as pa

    counts = [
        "read",
        "written",
        "quarantined",
        "deduplicated",
        "superseded",
        "already_read",
        "groups",
        "upserted",
        "deleted",
        "unchanged",
        "files_listed",
        "files_opened",
        "files_quarantined",
        "files_already_read",
    ]
    return pa.schema(
        [
            ("flow", pa.string()),
            ("kind", pa.string()),
            ("app_id", pa.string()),
            ("batch_id", pa.int64()),
            *[(name, pa.int64()) for name in counts],
            ("filtered", pa.map_(pa.string(), pa.int64())),
            ("rules", pa.map_(pa.string(), pa.int64())),
            ("target_version", pa.int64()),
            ("seconds", pa.float64()),
            *_attempt_fields(),
        ]
    )


def _verdict_schema() -> pyarrow.Schema:
    import pyarrow as pa

    texts = ["flow", "suite", "suite_fingerprint", "code_fingerprint", "outcome", "results"]
    return pa.schema([*[(name, pa.string()) for name in texts], ("batch_id", pa.int64()), *_attempt_fields()])


def _attempt_fields() -> list[tuple[str, pyarrow.DataType]]:
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
