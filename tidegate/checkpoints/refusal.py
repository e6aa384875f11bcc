"""A batch that its gate refused waits; a person may decide that it goes to quarantine whole.

Both stand beside the checkpoint as small files, which `plan` reads without a JVM: which batch was refused, by which suite
and code; and which batch a person took out, who and why. The decision is about one batch, and ends with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidegate import atomic
from tidegate.checkpoints import progress
from tidegate.checkpoints.checkpoint import CheckpointRef
from tidegate.errors import RequestError
from tidegate.layout import Layout
from tidegate.report import now
from tidegate.spec import Flow

RULE = "refused_batch"
"""What every row of such a batch carries in quarantine, beside what it broke itself."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A person's decision about the batch that waits."""

    batch_id: int
    by: str
    reason: str
    at: str
    """The instant, in UTC, as ISO 8601."""


def note(layout: Layout, ref: CheckpointRef, told: Mapping[str, Any]) -> None:
    """Keep what must change before a refused batch is tried again, while that batch is the one which waits.

    Args:
        layout: Where the checkpoint lies.
        ref: The flow's checkpoint; the caller holds its lease.
        told: ``batch_id``, and the fingerprints of what refused it.
    """
    if progress.read(ref.path(layout)).pending_batch == told["batch_id"]:
        atomic.write_text(layout.refusal(ref.dag_id, ref.flow, ref.version, ref.refresh), json.dumps(told))


def noted(layout: Layout, ref: CheckpointRef) -> dict[str, Any]:
    """What a job noted of the batch that was refused last: its ``batch_id``, and what must change before it is tried again."""
    return _read(layout.refusal(ref.dag_id, ref.flow, ref.version, ref.refresh))


def waiting(layout: Layout, ref: CheckpointRef) -> int | None:
    """The batch that its gate refused and that is not committed; None when none waits, or it waits for its contract.

    Raises:
        CheckpointCorruptError: A file of the checkpoint cannot be read.
    """
    told = noted(layout, ref)
    pending = progress.read(ref.path(layout)).pending_batch
    return pending if pending is not None and told.get("batch_id") == pending and "drift" not in told else None


def take(layout: Layout, ref: CheckpointRef, flow: Flow, *, by: str, reason: str) -> int:
    """Decide that the refused batch goes to quarantine whole with the flow's next run, and return its id.

    Args:
        layout: Where the checkpoint lies.
        ref: The flow's checkpoint; the caller holds its lease.
        flow: As it is declared.
        by: Who decides.
        reason: Why; it is kept with every row.

    Raises:
        RequestError: No refused batch waits, there is no reason, or the flow recomputes groups.
        CheckpointCorruptError: A file of the checkpoint cannot be read.
    """
    if flow.target.write_mode == "recompute":
        raise RequestError(
            f"flow {flow.name!r} recomputes groups, and a group cannot be withheld; mend its suite or its transform"
        )
    if not reason.strip():
        raise RequestError("taking a batch out needs a reason: say why it will not be mended")
    batch_id = waiting(layout, ref)
    if batch_id is None:
        raise RequestError(
            f"no refused batch of flow {ref.flow!r} waits; `tidegate status {ref.dag_id}` shows what does"
        )
    taken = Taken(batch_id=batch_id, by=by, reason=reason.strip(), at=now())
    path = _path(layout, ref)
    atomic.write_text(path, json.dumps(asdict(taken)))
    return batch_id


def taken(layout: Layout, ref: CheckpointRef, batch_id: int) -> Taken | None:
    """The decision about exactly this batch; None when there is none."""
    told = _read(_path(layout, ref))
    return Taken(**told) if told.get("batch_id") == batch_id else None


def end(layout: Layout, ref: CheckpointRef, batch_id: int) -> None:
    """Forget the decision, once its batch is recorded."""
    if taken(layout, ref, batch_id) is not None:
        _path(layout, ref).unlink()


def _path(layout: Layout, ref: CheckpointRef) -> Path:
    return layout.taken(ref.dag_id, ref.flow, ref.version, ref.refresh)


def _read(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}
