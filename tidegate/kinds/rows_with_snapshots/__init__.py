"""What a flow declares that compares snapshots beside its changes."""

from __future__ import annotations

from tidegate.errors import FieldError
from tidegate.sources.snapshots import SnapshotFeed
from tidegate.spec.kinds import DeclaredFlow, FlowKind


def _check(owner: str, flow: DeclaredFlow) -> None:
    """Refuse snapshots that have no place in the order of the changes of each key."""
    if flow.snapshots is None:
        return
    if flow.snapshots.valid_from is not None:
        raise FieldError(owner, "snapshots", flow.snapshots, "None, or SnapshotFeed(<table>) without valid_from")
    target = flow.target
    is_limited = bool(target.replace_by or target.history or target.first_day or target.last_day)
    if target.write_mode != "upsert" or is_limited or len(flow.feeds) != 1 or isinstance(flow.source, SnapshotFeed):
        allowed = (
            "None, or a source of changes and a target with keys and sequence_by, without replace_by, history, first_day and last_day: a "
            "snapshot has a place in the order of the changes of each key"
        )
        raise FieldError(owner, "snapshots", flow.snapshots, allowed)


KIND = FlowKind(
    name="rows_with_snapshots",
    shapes=(("upsert", False), ("upsert", True)),
    snapshots=True,
    unit="key",
    check=_check,
)
