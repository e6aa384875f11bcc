"""What earlier batches of a flow were like, from the verdicts table. Read with delta-rs, in milliseconds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from tidegate.checkpoint import CheckpointRef
    from tidegate.layout import Layout

KEPT = 1_000
"""How many of the pipeline's newest verdicts are looked at: drift is measured against the recent past."""


def read(layout: Layout, ref: CheckpointRef, batch_id: int | None) -> Iterator[dict[str, float]]:
    """What each rule observed, batch by batch, the newest first.

    A refused batch is not an example to follow, so it is left out. Of a batch that was judged twice (a crash came
    between verdict and write) the last judgement counts.

    Args:
        layout: Where the verdicts lie.
        ref: The flow and its checkpoint.
        batch_id: The batch in hand, which is left out; None when there is none.
    """
    known = {(ref.version, ref.refresh, batch_id)}
    for line in _lines(layout, ref):
        batch = (line["checkpoint_version"], line["refresh"], line["batch_id"])
        if batch in known:
            continue
        known.add(batch)
        results = json.loads(line["results"])
        yield {result["rule"]: result["observed"] for result in results if result.get("observed") is not None}


def _lines(layout: Layout, ref: CheckpointRef) -> list[dict[str, Any]]:
    """The verdicts of a flow that let a batch pass, the newest first."""
    from deltalake import DeltaTable

    path = layout.ops(ref.dag_id, "verdicts")
    if not DeltaTable.is_deltatable(str(path)):
        return []
    table = DeltaTable(str(path))
    columns = ["batch_id", "outcome", "results", "checkpoint_version", "refresh", "recorded_at"]
    filters: list[tuple[str, str, Any]] = [("flow", "=", ref.flow)]
    if (since := _since(table)) is not None:
        filters.append(("recorded_at", ">=", since))
    lines: list[dict[str, Any]] = table.to_pyarrow_table(columns=columns, filters=filters).to_pylist()
    passed = [line for line in lines if line["outcome"] != "refused"]
    return sorted(passed, key=lambda line: line["recorded_at"], reverse=True)


def _since(table: Any) -> datetime | None:
    """Where the newest `KEPT` lines begin: every line is a file of its own, and the log knows the time of each."""
    import pyarrow

    times = pyarrow.table(table.get_add_actions(flatten=True))
    if "max.recorded_at" not in times.column_names or times.num_rows <= KEPT:
        return None
    newest: list[datetime] = sorted(filter(None, times.column("max.recorded_at").to_pylist()), reverse=True)
    return newest[KEPT - 1] if len(newest) >= KEPT else None
